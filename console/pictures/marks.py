"""The small pieces that pictures are made of: escaped elements of SVG, and the shape of each state."""

from collections.abc import Iterable, Sequence
from typing import Final

from markupsafe import Markup

from console.pictures.states import State

R: Final = 5.5
"""The radius of a mark."""


def mark(state: State, x: float, y: float, said: str = "") -> Markup:
    """Draw a state's shape around a point; `said` is its text for those who point at it."""
    return Markup('<g class="mark {look}" transform="translate({x:g} {y:g})">{said}{shape}</g>').format(
        look=state.look,
        x=round(x, 1),
        y=round(y, 1),
        said=Markup("<title>{}</title>").format(said) if said else "",
        shape=_SHAPES[state.name],
    )


def leading(drawn: Markup, x: float, y: float, anchor: str, named: str) -> Markup:
    """Make a link of something drawn around a point, to a place on the same page; near it is hit too."""
    return Markup(
        '<a href="#{}" aria-label="{}"><circle class="reach" cx="{:g}" cy="{:g}" r="8"/>{}</a>'
    ).format(anchor, named, round(x, 1), round(y, 1), drawn)


def text(x: float, y: float, words: str, look: str = "soft", anchor: str = "start") -> Markup:
    """Write words at a point."""
    return Markup('<text class="{}" x="{:g}" y="{:g}" text-anchor="{}">{}</text>').format(
        look, round(x, 1), round(y, 1), anchor, words
    )


def line(x: float, y: float, to_x: float, to_y: float, look: str = "rule") -> Markup:
    """Draw a line."""
    return Markup('<line class="{}" x1="{:g}" y1="{:g}" x2="{:g}" y2="{:g}"/>').format(
        look, round(x, 1), round(y, 1), round(to_x, 1), round(to_y, 1)
    )


def box(x: float, y: float, width: float, height: float, look: str, said: str = "") -> Markup:
    """Draw a filled rectangle."""
    return Markup('<rect class="{}" x="{:g}" y="{:g}" width="{:g}" height="{:g}">{}</rect>').format(
        look,
        round(x, 2),
        round(y, 2),
        round(width, 2),
        round(height, 2),
        Markup("<title>{}</title>").format(said) if said else "",
    )


def boxes(places: Iterable[Sequence[float]], look: str) -> Markup:
    """Draw many filled rectangles (x, y, width, height) that look alike and have no words, as one path."""
    drawn = []
    for place in places:
        x, y, width, height = (round(each, 2) for each in place)
        drawn.append(f"M{x:g} {y:g}h{width:g}v{height:g}h{-width:g}z")
    return Markup('<path class="{}" d="{}"/>').format(look, "".join(drawn)) if drawn else Markup("")


def picture(
    width: float, height: float, body: Markup, look: str, name: str, told: str, *, links: bool = False
) -> Markup:
    """Put a picture together, with its name and what it shows for those who do not see it.

    One with links in it is a group: an image would hide them from whoever listens.
    """
    return Markup(
        '<svg class="picture {look}" viewBox="0 0 {width:g} {height:g}" role="{role}" aria-label="{name}: {told}">'
        "{body}</svg>"
    ).format(
        look=look,
        width=width,
        height=round(height),
        role="group" if links else "img",
        name=name,
        told=told,
        body=body,
    )


def legend_mark(state: State) -> Markup:
    """Draw a state's shape alone, for legends and lists, where its word stands beside it."""
    return Markup(
        '<svg class="shape" viewBox="-8 -8 16 16" width="16" height="16" aria-hidden="true">{}</svg>'
    ).format(mark(state, 0, 0))


_SHAPES: Final = {
    "stored": Markup('<circle r="5.5"/>'),
    "queued": Markup('<circle class="open" r="4.6"/>'),
    "not-captured": Markup('<path class="stroke" d="M-4.5-4.5 4.5 4.5M-4.5 4.5 4.5-4.5"/>'),
    "expired": Markup('<circle class="open" r="4.8"/><path d="M-4.8 0a4.8 4.8 0 0 0 9.6 0z"/>'),
    "erased": Markup('<rect x="-5" y="-5" width="10" height="10"/>'),
    "revoked": Markup('<path d="M0-6 6 5H-6z"/>'),
    "mismatched": Markup('<path d="M0-7 7 0 0 7-7 0z"/>'),
    "withheld": Markup('<circle class="open" r="4.8"/><circle r="1.8"/>'),
    "lost": Markup('<circle class="open" r="4.8"/><path class="stroke" d="M-5.5 5.5 5.5-5.5"/>'),
}
