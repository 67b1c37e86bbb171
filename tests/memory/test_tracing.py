"""Spans: what a memory does, as OpenTelemetry's conventions for memories have it, and nothing of what is in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from memories import python
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tinymem import HierarchicalMemory, MessageStep, ScratchpadStep
from tinymem.errors import InputError

CANARY = "canary7391"
open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")


@pytest.fixture(scope="module")
def exporter() -> Iterator[InMemorySpanExporter]:
    """What is exported by this process's provider, which can be set once only."""
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)
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
    found = memory.recall(CANARY, 400)
    context = memory.context(CANARY)
    memory.mark(step.id)
    memory.get(step.id)
    memory.stats()
    gone = memory.forget(before=datetime(2100, 1, 1, tzinfo=timezone.utc))
    expected = [
        *[("create_memory", count) for count in (1, 3, 2, 1)],
        ("search_memory", len(found.items)), ("search_memory", len(context.recalled.items)),
        ("update_memory", None), ("delete_memory", gone),
    ]  # fmt: skip
    assert gone == 7 and len(found.items) > 1
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


def test_a_span_stands_below_that_of_the_agent(memory: HierarchicalMemory, exporter: InMemorySpanExporter) -> None:
    with trace.get_tracer("an agent").start_as_current_span("invoke_agent") as parent:
        memory.add(MessageStep("user", "Hello."))
    span = exporter.get_finished_spans()[0]
    assert span.parent is not None and span.parent.span_id == parent.get_span_context().span_id


# -- without it -------------------------------------------------------------------------------------------------------

QUIETLY = """
import json, sys
from tinymem import HierarchicalMemory, MessageStep
{before}
with HierarchicalMemory(sys.argv[1], embedder="hashing:64", store="exact") as memory:
    memory.add(MessageStep("user", "The ladder is behind the shed."))
    found = "shed" in memory.recall("ladder").text
print(json.dumps([found, "opentelemetry.trace" in sys.modules]))
"""
BLOCKED = "sys.modules['opentelemetry'] = None"
UNSET = "import opentelemetry.trace as t; t.get_tracer = None"  # would fail if it were called


@pytest.mark.slow
@pytest.mark.parametrize(("before", "imported"), [("", False), (BLOCKED, False), (UNSET, True)])
def test_without_a_provider_no_tracer_is_asked(tmp_path: Path, before: str, imported: bool) -> None:
    out, _ = python(QUIETLY.format(before=before), tmp_path).communicate(timeout=600)
    assert json.loads(out) == [True, imported]


COSTS = """
import json
import opentelemetry.trace
from work import calls_of
from tinymem.memory.tracing import traced
class Plain:
    namespace = "ann"
    def one(self):
        return 1
    other = traced("search_memory")(one)
plain = Plain()
plain.other()
print(json.dumps(calls_of(plain.other) - calls_of(plain.one)))
"""


def test_without_a_provider_a_call_is_a_handful_of_calls() -> None:
    out, _ = python(COSTS).communicate(timeout=600)
    assert 0 < json.loads(out) < 20
