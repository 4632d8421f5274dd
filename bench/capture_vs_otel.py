"""`capture_vs_otel`: a capture of 4 KiB against a span with the same content that OpenTelemetry takes into its batches.

Each encodes the content as JSON as it does in the field: OpenTelemetry's GenAI instrumentations by `json.dumps`. What
the ratio is where the span too is encoded by msgspec is told beside it. The exporter throws away what it is given.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from bench.capturing import A_RUN, admitted, asked, client, delivered, thread_us
from bench.figures import Figure, Rounds, alternate
from bench.setting import Setting
from custody_client import Run

ROUNDS: Final = 31
# A round of one run would be short; what one run may have waiting is bounded.
RUNS: Final = 4


class Nowhere(SpanExporter):
    """The cheapest of all exporters."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - its form
        """Throw away."""
        return SpanExportResult.SUCCESS


async def measure(setting: Setting) -> list[Figure]:
    """Return the ratio of processor time on the caller's thread."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    tracer = provider.get_tracer("bench")

    def span(content: dict[str, Any], encode: Callable[[object], str] = _dumps) -> None:
        started = tracer.start_span("chat large-3")
        started.set_attribute("gen_ai.input.messages", encode(content))
        started.end()

    def span_by_msgspec(content: dict[str, Any]) -> None:
        span(content, lambda given: msgspec.json.encode(given).decode())

    by_msgspec: list[float] = []
    async with client(setting) as custody:

        async def ours(at: int) -> float:
            runs = [admitted(custody, f"otel-{at}-{number}") for number in range(RUNS)]
            before = custody.counters().delivered

            def capture(given: tuple[Run, dict[str, Any]]) -> None:
                run, content = given
                run.exchange().attempt().capture_request(content)

            taken = thread_us(capture, list(zip(runs * A_RUN, contents(), strict=True)))
            delivered(custody, before, RUNS * A_RUN)
            for run in runs:
                run.close()
            return taken

        async def rival(_: int) -> float:
            by_msgspec.append(thread_us(span_by_msgspec, contents()))
            return thread_us(span, contents())

        def contents() -> list[dict[str, Any]]:
            return [asked(setting.contents) for _ in range(RUNS * A_RUN)]

        found = await alternate(setting.rounds(ROUNDS), ours, rival)
    provider.shutdown()
    same = Rounds(found.ours, by_msgspec).ratio
    told = f"{found.told('µs', 'a span')}; the span encoded by msgspec too: {same:.2f}"
    return [Figure("capture_vs_otel", found.ratio, told)]


def _dumps(content: object) -> str:
    """Encode as `opentelemetry-util-genai` does."""
    return json.dumps(content, separators=(",", ":"))
