"""Spans of OpenTelemetry for what memories do.

    from tinymem.integrations.otel import trace_memories

They follow the memory spans of the semantic conventions for generative AI (status: development),
https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/gen-ai-spans.md#memory.

Attributes: `gen_ai.operation.name`, `gen_ai.memory.store.id` (the namespace), `gen_ai.memory.record.count` (steps added
or forgotten, excerpts recalled), and `error.type` (a class). A recall has an event `tinymem.recalled`, with the numbers
and the tokens of its steps, best first. No query, no text of a step and no message of an error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from tinymem.errors import MissingExtraError
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.recall.results import Recall

try:
    from opentelemetry import trace
except ImportError as error:
    raise MissingExtraError("tinymem.integrations.otel", "otel") from error

__all__ = ["trace_memories"]

OPERATIONS = {  # of the conventions, for the calls of a memory
    "add_steps": "create_memory",
    "add_messages": "create_memory",
    "add_message": "create_memory",
    "archive": "create_memory",
    "archive_messages": "create_memory",
    "mark": "update_memory",
    "correct": "update_memory",
    "context": "search_memory",
    "fit": "search_memory",
    "recall": "search_memory",
    "forget": "delete_memory",
    "retain": "delete_memory",
}


@cache
def trace_memories() -> None:
    """Make each call of every HierarchicalMemory a span of the program's tracer provider, from now on.

    The awaited calls of AsyncHierarchicalMemory have theirs too. Called again, it does nothing.
    """
    for name, operation in OPERATIONS.items():
        setattr(HierarchicalMemory, name, _traced(operation, getattr(HierarchicalMemory, name)))


def _traced(operation: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def called(self: HierarchicalMemory, /, *args: Any, **kwargs: Any) -> Any:
        attributes = {"gen_ai.operation.name": operation, "gen_ai.memory.store.id": self.namespace}
        with trace.get_tracer("tinymem").start_as_current_span(
            operation, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                result = method(self, *args, **kwargs)
            except BaseException as error:
                span.set_attribute("error.type", type(error).__qualname__)
                span.set_status(trace.StatusCode.ERROR)
                raise
            if (count := _count_records(result)) is not None:
                span.set_attribute("gen_ai.memory.record.count", count)
            recalled = getattr(result, "recalled", result)
            if isinstance(recalled, Recall) and recalled.items:
                best = sorted(recalled.items, key=lambda item: -item.score)
                steps, tokens = [item.step.step_number or 0 for item in best], [item.tokens for item in best]
                span.add_event("tinymem.recalled", {"tinymem.steps": steps, "tinymem.tokens": tokens})
            return result

    return called


def _count_records(result: object) -> int | None:
    """Count the records of a result: steps that were added or forgotten, excerpts of a Recall or in a Context."""
    for name in ("recalled", "items", "removed"):
        result = getattr(result, name, result)
    return result if isinstance(result, int) else len(result) if isinstance(result, (list, tuple)) else None
