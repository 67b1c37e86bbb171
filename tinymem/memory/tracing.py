"""Spans of OpenTelemetry for what a memory does, where the program has set a tracer provider.

They follow the memory spans of the semantic conventions for generative AI (status: development),
https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/gen-ai-spans.md#memory:

| call | span |
| --- | --- |
| `add`, `add_steps`, `add_messages`, `archive` | `create_memory` |
| `recall`, `context`, `fit` | `search_memory` |
| `mark` | `update_memory` |
| `forget` | `delete_memory` |

Attributes: `gen_ai.operation.name`, `gen_ai.memory.store.id` (the namespace), `gen_ai.memory.record.count` (steps added
or forgotten, excerpts recalled), and `error.type` (a class). A recall has an event `tinymem.recalled`, with the numbers
and the tokens of its steps, best first. No query, no text of a step and no message of an error.

Nothing is imported here: a program that sets a provider has imported OpenTelemetry, and no other pays for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from tinymem.recall.results import Recall

__all__ = ["traced"]

NAME = "tinymem"  # of the instrumentation


class _Named(Protocol):
    @property
    def namespace(self) -> str: ...


SelfT = TypeVar("SelfT", bound=_Named)
ResultT = TypeVar("ResultT")
P = ParamSpec("P")


def traced(
    operation: str,
) -> Callable[[Callable[Concatenate[SelfT, P], ResultT]], Callable[Concatenate[SelfT, P], ResultT]]:
    """Make each call of a method a span; its object has a `namespace`."""

    def decorate(method: Callable[Concatenate[SelfT, P], ResultT]) -> Callable[Concatenate[SelfT, P], ResultT]:
        @wraps(method)
        def traced_method(self: SelfT, /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
            trace = _trace()
            if trace is None:
                return method(self, *args, **kwargs)
            attributes = {"gen_ai.operation.name": operation, "gen_ai.memory.store.id": str(self.namespace)}
            with trace.get_tracer(NAME).start_as_current_span(
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

        return traced_method

    return decorate


def _count_records(result: object) -> int | None:
    """Count the records of a result: steps that were added or forgotten, excerpts of a Recall or in a Context."""
    for name in ("recalled", "items", "removed"):
        result = getattr(result, name, result)
    return result if isinstance(result, int) else len(result) if isinstance(result, (list, tuple)) else None


def _trace() -> Any:
    """The module `opentelemetry.trace`, if the program has imported it and set a tracer provider."""
    trace = sys.modules.get("opentelemetry.trace")
    proxy = getattr(trace, "ProxyTracerProvider", None)
    provider = getattr(trace, "get_tracer_provider", None)  # there is none while another thread imports the module
    return None if proxy is None or provider is None or isinstance(provider(), proxy) else trace
