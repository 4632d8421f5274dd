"""The program of `calls_beside`: fifty calls of a provider, with a client of Custody beside them or without.

It prints one line of JSON when it has its answers, and then ends as programs do.
"""

import hashlib
import json
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

import httpx

CALLS: Final = 50


def main(provider: str, custody: str, key: str, run_id: str) -> None:
    """Make the calls; an empty address leaves Custody out."""
    with ExitStack() as exits:
        transport: httpx.BaseTransport = httpx.HTTPTransport()
        counters = None
        if custody:
            # Here, so that the program without it does not even load it.
            from custody_client import Custody  # noqa: PLC0415
            from custody_client.adapters.transports import tap  # noqa: PLC0415

            client = Custody(custody, key)
            counters = client.counters
            transport = tap(transport, run=exits.enter_context(client.run(run_id)))
        http = exits.enter_context(httpx.Client(base_url=provider, transport=transport))
        taken, answers = [], hashlib.sha256()
        for number in range(CALLS):
            began = time.perf_counter_ns()
            answers.update(_call(http, number))
            taken.append((time.perf_counter_ns() - began) / 1e6)
    told: dict[str, object] = {"taken_ms": taken, "answers": answers.hexdigest()}
    if counters:
        told["observed"] = counters().observed
    print(json.dumps(told), flush=True)


def _call(http: httpx.Client, number: int) -> bytes:
    """Ask once, every second time for a stream."""
    said = "What is the weather in Rome? " * 40
    asked: Mapping[str, object] = {
        "model": "large-3",
        "stream": bool(number % 2),
        "messages": [{"role": "user", "content": f"{number}: {said}"}],
    }
    with http.stream("POST", "/v1/chat/completions", json=asked) as answer:
        return b"".join(answer.iter_bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
