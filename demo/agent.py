"""The scenes that the small research agent plays. Each shows one thing that happens in a runtime's life."""

import asyncio
import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from demo.api import Api, Part, Run

REQUEST = "logical-request"
OUTPUT = "observable-output"

_QUESTIONS = (
    "Which rivers cross the old salt road, and where?",
    "Summarise the harbour accounts of 1742 in five lines.",
    "Compare the two surveys of the north field.",
    "List every bridge that the 1801 flood destroyed.",
    "What did the guild pay for oak, year by year?",
)


@dataclass
class Story:
    """What was played: every run, and a word for each scene."""

    runs: list[Run] = field(default_factory=list)
    scenes: list[tuple[str, str]] = field(default_factory=list)
    expiring: list[Part] = field(default_factory=list)

    def parts(self) -> list[Part]:
        """Every observation that the agent tried to post."""
        return [part for run in self.runs for part in run.parts]

    def tell(self, scene: str, outcome: str) -> None:
        """Remember what a scene showed."""
        self.scenes.append((scene, outcome))


def request_body(question: str, **options: Any) -> bytes:
    """A provider-neutral logical request, as the agent really hands it to its SDK."""
    return json.dumps(
        {
            "model": "small-1",
            "temperature": 0.2,
            **options,
            "messages": [
                {"role": "system", "content": "You are a careful archivist. Quote your sources."},
                {"role": "user", "content": question},
            ],
        }
    ).encode()


def output_body(text: str, finish: str | None = "stop", **more: Any) -> bytes:
    """What could be observed of an answer; a finish that was never seen stays null."""
    return json.dumps({"text": text, "finish": finish, "usage": None, **more}).encode()


async def play(runtime: Api, operator: Api) -> Story:
    """Play all scenes and return what there is to read back."""
    story = Story()
    await _expiring(story, runtime)
    await _research(story, runtime)
    await _temporary(story, runtime)
    await _opt_out(story, runtime)
    await _burst(story, runtime)
    await _sources(story, runtime, operator)
    await _erasure(story, runtime, operator)
    for run in story.runs:
        await run.settled(run.parts)
        await run.close()
    return story


async def _research(story: Story, runtime: Api) -> None:
    run = await Run.declare(runtime, "demo-research", labels={"team": "archive"})
    story.runs.append(run)
    for number, question in enumerate(_QUESTIONS, 1):
        exchange = f"research-{number}"
        await run.flush(
            [
                run.part(exchange, "physical-1", REQUEST, request_body(question)),
                run.part(exchange, "physical-1", OUTPUT, output_body(f"Of {number} sources, two agree.")),
            ],
            [_state(exchange, "physical-1", "completed", f"resp-{number}")],
        )
    story.tell("five exchanges, in flushes", "requests and outputs are queued, then stored")
    charter = request_body("Who signed the second charter?")
    await run.put(
        run.part("research-6", "physical-1", REQUEST, charter), Dispatch="dispatched", Settlement="failed"
    )
    await run.put(run.part("research-6", "physical-2", REQUEST, charter), Dispatch="dispatched")
    await run.put(
        run.part("research-6", "physical-2", OUTPUT, output_body("The abbot and two aldermen.")),
        Settlement="completed",
    )
    story.tell(
        "a retry", "two attempts of one exchange; the failed one has no output, and nobody invents one"
    )
    cut = run.part("research-7", "physical-1", OUTPUT, output_body("The ledger begins with", finish=None))
    await run.put(run.part("research-7", "physical-1", REQUEST, request_body("Read the ledger aloud.")))
    await run.put(cut, Completeness="interrupted", Settlement="cancelled")
    story.tell("an interrupted stream", "the text so far is kept and stays `interrupted`")
    await _image(story, run)
    await run.lose(3, "client_queue_full")
    story.tell(
        "three observations that the agent's own buffer refused", "a range of numbers, with its reason"
    )


async def _image(story: Story, run: Run) -> None:
    picture = base64.b64encode(bytes(range(256)) * 1120).decode()
    body = json.dumps(
        {"messages": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}]}
    ).encode()
    part = await run.put(run.part("research-8", "physical-1", REQUEST, body))
    await run.put(run.part("research-8", "physical-1", OUTPUT, output_body("A faded seal.")))
    story.tell(
        f"an inline image of {len(body) // 1024} KiB",
        f"refused unread: {part.receipt['reason']}; its output is kept",
    )


async def _temporary(story: Story, runtime: Api) -> None:
    run = await Run.declare(runtime, "demo-temporary", mode="temporary")
    story.runs.append(run)
    part = await run.put(run.part("private-1", "physical-1", REQUEST, request_body("Between us:")))
    story.tell("a temporary run", f"refused before its body was read: {part.receipt['reason']}")


async def _opt_out(story: Story, runtime: Api) -> None:
    run = await Run.declare(runtime, "demo-opt-out")
    story.runs.append(run)
    await run.flush([run.part("chat-1", "physical-1", REQUEST, request_body("Before the opt-out."))])
    await run.settled(run.parts)
    await Run.declare(runtime, "demo-opt-out", content="opt_out")
    part = await run.put(run.part("chat-2", "physical-1", REQUEST, request_body("After the opt-out.")))
    story.tell("an opt-out midway", f"what was stored stays; from then on {part.receipt['reason']}")


async def _burst(story: Story, runtime: Api) -> None:
    run = await Run.declare(runtime, "demo-burst")
    story.runs.append(run)
    parts = [
        run.part(f"burst-{number:02}", "physical-1", REQUEST, request_body(f"Page {number}."))
        for number in range(1, 41)
    ]
    await run.flush(parts)
    refused = [part for part in parts if part.receipt["capture"] == "not_captured"]
    story.tell(
        "forty parts at once",
        f"{len(parts) - len(refused)} wait; {len(refused)} are refused, each by name, none evicted",
    )


async def _sources(story: Story, runtime: Api, operator: Api) -> None:
    for source in ("licensed-atlas", "parish-register"):
        await operator.call("PUT", f"/v1/sources/{source}", body={})
    run = await Run.declare(runtime, "demo-sources")
    story.runs.append(run)
    atlas = run.part("map-1", "physical-1", REQUEST, request_body("Trace the coast from the atlas."))
    register = run.part("names-1", "physical-1", REQUEST, request_body("Who was baptised in May?"))
    await run.put(atlas, Sources='"licensed-atlas";v=1')
    await run.put(register, Sources='"parish-register";v=1')
    await run.settled([atlas, register])
    await operator.call("POST", "/v1/sources/licensed-atlas/revoke", body={})
    await operator.call("PUT", "/v1/sources/parish-register", body={"earlier": "withdrawn"})
    await asyncio.sleep(1.2)  # what the guard knows of sources is at most a second old
    late = await run.put(
        run.part("map-2", "physical-1", REQUEST, request_body("And the islands?")),
        Sources='"licensed-atlas";v=1',
    )
    story.tell(
        "a revoked source", f"new parts are refused ({late.receipt['reason']}), the old one is closed at once"
    )
    story.tell("a withdrawn version", "what was bound to it is closed: dependency_changed")


async def _erasure(story: Story, runtime: Api, operator: Api) -> None:
    run = await Run.declare(runtime, "demo-erasure")
    story.runs.append(run)
    part = await run.put(run.part("oops-1", "physical-1", REQUEST, request_body("My home address is …")))
    await run.settled([part])
    await operator.call("POST", "/v1/erasures", body={"part": part.receipt["evidence"]})
    story.tell("an erasure by the operator", "refused from that moment, destroyed right after")


async def _expiring(story: Story, runtime: Api) -> None:
    run = await Run.declare(runtime, "demo-expiring", retention="10s")
    story.runs.append(run)
    part = run.part("brief-1", "physical-1", REQUEST, request_body("Only for ten seconds."))
    await run.put(part)
    story.expiring.append(part)
    story.tell("a part that expires during the demo", "readable for ten seconds, then 410")


def _state(exchange: str, attempt: str, settlement: str, *refs: str) -> list[Any]:
    return [
        "state",
        {
            "exchange": exchange,
            "attempt": attempt,
            "dispatch": "dispatched",
            "settlement": settlement,
            "refs": list(refs),
        },
    ]


__all__: Sequence[str] = ("Story", "play")
