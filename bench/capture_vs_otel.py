"""`capture_vs_otel`: a capture of 4 KiB against a span with the same content that OpenTelemetry takes into its batches.

Both encode the content as JSON, with the same encoder; OpenTelemetry's exporter throws away what it is given.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from bench.capturing import A_RUN, admitted, asked, client, delivered, thread_us
from bench.figures import Figure, alternate
from bench.setting import Setting

ROUNDS: Final = 31


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

    def span(content: dict[str, Any]) -> None:
        started = tracer.start_span("chat large-3")
        started.set_attribute("gen_ai.input.messages", msgspec.json.encode(content).decode())
        started.end()

    async with client(setting) as custody:

        async def ours(at: int) -> float:
            run = admitted(custody, f"otel-{at}")
            before = custody.counters().delivered

            def capture(content: dict[str, Any]) -> None:
                run.exchange().attempt().capture_request(content)

            taken = thread_us(capture, contents())
            delivered(custody, before, A_RUN)
            run.close()
            return taken

        async def rival(_: int) -> float:
            return thread_us(span, contents())

        def contents() -> list[dict[str, Any]]:
            return [asked(setting.contents) for _ in range(A_RUN)]

        found = await alternate(setting.rounds(ROUNDS), ours, rival)
    provider.shutdown()
    return [Figure("capture_vs_otel", found.ratio, found.told("µs", "a span"))]
