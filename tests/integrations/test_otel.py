"""Spans: what a memory does, as OpenTelemetry's conventions for memories have it, and nothing of what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tinymem import HierarchicalMemory, MessageStep, ScratchpadStep
from tinymem.errors import InputError
from tinymem.integrations.otel import OPERATIONS, trace_memories

CANARY = "canary7391"
open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")


@pytest.fixture(scope="module")
def exporter() -> Iterator[InMemorySpanExporter]:
    """What is exported by this process's provider, which can be set once only, while memories are traced."""
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)
    with pytest.MonkeyPatch.context() as patched:
        for name in OPERATIONS:
            patched.setattr(HierarchicalMemory, name, getattr(HierarchicalMemory, name))  # and put back at the end
        trace_memories()
        trace_memories()
        yield kept
    kept.shutdown()


@pytest.fixture
def memory(tmp_path: Path, exporter: InMemorySpanExporter) -> Iterator[HierarchicalMemory]:
    with open_memory(tmp_path, namespace="ann") as opened:
        exporter.clear()
        yield opened


def told(exporter: InMemorySpanExporter) -> list[tuple[str, dict[str, Any]]]:
    return [(span.name, dict(span.attributes or {})) for span in exporter.get_finished_spans()]


def attributes(operation: str, count: int | None) -> dict[str, Any]:
    counted = {} if count is None else {"gen_ai.memory.record.count": count}
    return {"gen_ai.operation.name": operation, "gen_ai.memory.store.id": "ann", **counted}


def test_each_call_is_one_span(memory: HierarchicalMemory, exporter: InMemorySpanExporter) -> None:
    step = memory.add(MessageStep("user", f"{CANARY} one", session=CANARY))
    memory.add_steps([MessageStep("user", f"{CANARY} {n}") for n in range(3)])
    memory.add_messages([{"role": "user", "content": CANARY}, {"role": "assistant", "content": CANARY}])
    memory.archive([ScratchpadStep(CANARY)])
    memory.add_message("user", CANARY)
    found = memory.recall(CANARY, 400)
    context = memory.context(CANARY)
    memory.mark(step.id)
    memory.get(step.id)
    memory.stats()
    gone = memory.forget(before=datetime(2100, 1, 1, tzinfo=timezone.utc))
    expected = [
        *[("create_memory", count) for count in (1, 3, 2, 1, None)],
        ("search_memory", len(found.items)), ("search_memory", len(context.recalled.items)),
        ("update_memory", None), ("delete_memory", gone),
    ]  # fmt: skip
    assert gone == 8 and len(found.items) > 1
    assert told(exporter) == [(name, attributes(name, count)) for name, count in expected]
    spans: tuple[ReadableSpan, ...] = exporter.get_finished_spans()
    assert {span.kind for span in spans} == {trace.SpanKind.INTERNAL}
    assert {span.instrumentation_scope.name for span in spans if span.instrumentation_scope} == {"tinymem"}
    assert all(CANARY not in span.to_json() for span in spans)


def test_a_span_has_what_was_recalled(memory: HierarchicalMemory, exporter: InMemorySpanExporter) -> None:
    fact = memory.archive([MessageStep("user", f"{CANARY} has the number PK-70812.", session="monday")])[0]
    found = memory.recall(f"Which number has {CANARY}?")
    events = [(one.name, dict(one.attributes or {})) for span in exporter.get_finished_spans() for one in span.events]
    numbers = (fact.step_number,)
    assert events == [("tinymem.recalled", {"tinymem.steps": numbers, "tinymem.tokens": (found.items[0].tokens,)})]


def test_an_error_is_told_by_its_class_alone(memory: HierarchicalMemory, exporter: InMemorySpanExporter) -> None:
    def refuses(text: str) -> str:
        raise PermissionError(f"{text} is not for the disk")

    with open_memory(memory.path, namespace="bob", redact=refuses) as other, pytest.raises(PermissionError):
        other.add(MessageStep("user", CANARY))
    bad: Any = 5
    with pytest.raises(InputError):
        memory.recall(bad)
    first, second = exporter.get_finished_spans()
    assert dict(first.attributes or {})["error.type"] == "PermissionError"
    assert dict(second.attributes or {}) == attributes("search_memory", None) | {"error.type": "InputError"}
    for span in (first, second):
        assert span.status.status_code is trace.StatusCode.ERROR and not span.status.description
        assert span.events == () and CANARY not in span.to_json()
