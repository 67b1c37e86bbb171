"""The commands that ask a memory: `tinymem recall`, `context` and `explain`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from tinymem.cli.shared import FilteredTarget, Target, excerpt_record, on_memory, print_json, say, warn
from tinymem.steps.terminal import pluralize, terminal_width

__all__ = ["context", "explain", "recall"]


@on_memory()
def recall(
    target: FilteredTarget,
    question: Annotated[
        list[str], typer.Argument(metavar="QUESTION", help="What to look for, in your own words, quoted or not.")
    ],
    max_tokens: Annotated[int, typer.Option(min=1, help="The token budget of the excerpts.")] = 1_000,
    k: Annotated[int | None, typer.Option("--k", "-k", min=1, help="The most passages.")] = None,
    min_relevance: Annotated[
        float | None, typer.Option(min=0, max=1, help="The least relevance; 0 fills the budget.")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", metavar="TIME", help="What held then: nothing later, and no mark of it.")
    ] = None,
) -> None:
    """Print the excerpts that answer a question, as they would stand in a prompt.

    Example: tinymem recall which test was flaky --max-tokens 500
    """
    asked = " ".join(question)
    options = target.filters() | {"k": k, "min_relevance": min_relevance, "as_of": as_of}
    with target.open_to_search() as memory:
        begin = time.perf_counter()
        found = memory.recall(asked, max_tokens, **options)
        milliseconds = (time.perf_counter() - begin) * 1000
        items = [excerpt_record(item) for item in found.items]
    if target.as_json:
        figures = {"tokens": found.tokens, "budget": max_tokens, "milliseconds": round(milliseconds, 1)}
        print_json({"question": asked, **figures, "text": found.text, "note": found.note, "items": items})
        return
    if found:
        say(found.text)
    if found.note:
        warn(found.note)
    size = f"{pluralize(len(items), 'excerpt')}, {found.tokens:,} of {pluralize(max_tokens, 'token')}"
    nothing = f"Nothing fits, {found.overflow}" if found.overflow.passages else "Nothing found"
    say(f"{size if found else nothing}, {milliseconds:.0f} ms.", err=True)


@on_memory()
def context(
    target: Target,
    question: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUESTION", help="What the next prompt is about. Default: the current task."),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="The token budget of the whole prompt.")] = 16_000,
    session: Annotated[str | None, typer.Option("--session", help="The conversation that goes on.")] = None,
) -> None:
    """Build the next prompt, and print what is in it and why; with --json, its messages.

    Example: tinymem context why did the test fail --max-tokens 4000 --json
    """
    with target.open_to_search() as memory:
        built = memory.context(" ".join(question or ()) or None, session=session, max_tokens=max_tokens)
        record = {"tokens": built.tokens, "budget": max_tokens, "messages": built.messages}
        target.answer(record, built.explain(terminal_width()))


@on_memory()
def explain(
    target: FilteredTarget,
    question: Annotated[list[str], typer.Argument(metavar="QUESTION", help="What to look for.")],
    max_tokens: Annotated[int, typer.Option(min=1, help="The token budget of the excerpts.")] = 1_000,
) -> None:
    """Print why recall brings back what it does, and what it ranks next.

    Example: tinymem explain which test was flaky --max-tokens 500
    """
    with target.open_to_search() as memory:
        found = memory.explain(" ".join(question), max_tokens, **target.filters())
    result = {"question": found.query, "tokens": found.recalled.tokens, "budget": found.budget}
    items, others = [*map(excerpt_record, found.items)], [*map(excerpt_record, found.next_best)]
    target.answer(result | {"items": items, "next_best": others}, found)
