"""The commands that ask a memory: `tinymem recall`, `context` and `explain`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from tinymem.cli.counting import counted
from tinymem.cli.options import (
    MEMORY,
    BudgetOption,
    EmbedderOption,
    JsonOption,
    NamespaceOption,
    PathOption,
    QuestionArgument,
    SessionOption,
    SinceOption,
    SpeakerOption,
    ToolOption,
    TypeOption,
    UntilOption,
    moment,
)
from tinymem.cli.shared import excerpt_record, opened, print_json, print_report

__all__ = ["context", "explain", "recall"]

NowOption = Annotated[
    str | None, typer.Option("--now", metavar="TIME", help="When it is asked: dates are reckoned from then.")
]


def recall(
    question: QuestionArgument,
    max_tokens: BudgetOption = 1_000,
    since: SinceOption = None,
    until: UntilOption = None,
    session: SessionOption = None,
    speaker: SpeakerOption = None,
    tool: ToolOption = None,
    type: TypeOption = None,
    now: NowOption = None,
    diversity: Annotated[
        float | None, typer.Option(min=0, max=1, help="How unlike each other excerpts must be; 0: not at all.")
    ] = None,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what bears on a question, as it would stand in a prompt.

    Example: tinymem recall which test was flaky --max-tokens 500
    """
    asked = " ".join(question)
    times = {"since": moment("since", since), "until": moment("until", until), "now": moment("now", now)}
    names = {"session": session, "speaker": speaker, "tool": tool, "type": type}
    more = {} if diversity is None else {"diversity": diversity}
    with opened(path, namespace, embedder) as memory:
        begin = time.perf_counter()
        found = memory.recall(asked, max_tokens, **times, **names, **more)  # type: ignore[arg-type]
        milliseconds = (time.perf_counter() - begin) * 1000
        if as_json:
            items = [excerpt_record(item) for item in found.items]
            result = {"question": asked, "tokens": found.tokens, "budget": max_tokens}
            print_json(result | {"milliseconds": round(milliseconds, 1), "text": found.text, "items": items})
            return
        if found:
            typer.echo(found.text)
        size = f"{counted(len(found.items), 'excerpt')}, {found.tokens:,} of {counted(max_tokens, 'token')}"
        typer.echo(f"{size if found else 'Nothing found'}, {milliseconds:.0f} ms.", err=True)


def context(
    question: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUESTION", help="What the next prompt is about; none: the current task."),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="The budget of the whole prompt.")] = 8_000,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build the next prompt, and print what is in it and why; with --json, its messages.

    Example: tinymem context why did the test fail --max-tokens 4000 --json
    """
    with opened(path, namespace, embedder) as memory:
        built = memory.context(" ".join(question or ()) or None, max_tokens=max_tokens)
        if as_json:
            print_json({"tokens": built.tokens, "budget": max_tokens, "messages": built.messages})
        else:
            typer.echo(built.explain())


def explain(
    question: QuestionArgument,
    max_tokens: BudgetOption = 1_000,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print why recall brings back what it does, and what comes next and stays away.

    Example: tinymem explain which test was flaky --max-tokens 500
    """
    asked = " ".join(question)
    with opened(path, namespace, embedder) as memory:
        found = memory.explain(asked, max_tokens=max_tokens)
    if as_json:
        items = [excerpt_record(item) for item in found.items]
        left = [excerpt_record(one.excerpt) | {"rank": one.rank, "reason": one.reason} for one in found.left_out]
        result = {"question": asked, "tokens": found.recalled.tokens, "budget": max_tokens}
        print_json(result | {"items": items, "left_out": left})
    else:
        print_report(found)
