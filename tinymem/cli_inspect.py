"""The commands that show what is in a memory: `tinymem inspect`, `show` (or `visualize`) and `explain`."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from tinymem.cli_options import MEMORY, EmbedderOption, JsonOption, NamespaceOption, PathOption
from tinymem.cli_shared import excerpt_record, opened, print_json, print_report

__all__ = ["explain", "inspect", "show"]


def inspect(
    steps: Annotated[int, typer.Option(min=0, help="How many steps to list, the newest.")] = 50,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = "static",
    as_json: JsonOption = False,
) -> None:
    """Print what a memory holds: tokens by tier, and its newest steps one by one.

    Example: tinymem inspect --steps 20
    """
    from tinymem.inspection import debug_memory

    with opened(path, namespace, embedder) as memory:
        report = debug_memory(memory, steps=steps)
    if as_json:
        print_json({"steps": report.steps, "tokens": report.tokens} | dataclasses.asdict(report))
    else:
        print_report(report)


def show(
    width: Annotated[int | None, typer.Option(min=1, help="Columns; those of the terminal unless given.")] = None,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = "static",
    as_json: JsonOption = False,
) -> None:
    """Draw a memory: its tiers, window, sessions and episodes as bars to scale. Also: tinymem visualize.

    Example: tinymem show --width 100
    """
    from tinymem.inspection import visualize_memory

    with opened(path, namespace, embedder) as memory:
        picture = visualize_memory(memory, width)
    if as_json:
        print_json(dataclasses.asdict(picture))
    else:
        print_report(picture)


def explain(
    question: Annotated[str, typer.Argument(help="What recall would be asked.")],
    max_tokens: Annotated[int, typer.Option(min=1, help="The budget that the excerpts must fit.")] = 1_000,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = "static",
    as_json: JsonOption = False,
) -> None:
    """Print why recall brings back what it does, and what comes next and stays away.

    Example: tinymem explain "which test was flaky?" --max-tokens 500
    """
    with opened(path, namespace, embedder) as memory:
        found = memory.explain(question, max_tokens=max_tokens)
    if as_json:
        items = [excerpt_record(item) for item in found.items]
        left = [excerpt_record(one.excerpt) | {"rank": one.rank, "reason": one.reason} for one in found.left_out]
        result = {"question": question, "tokens": found.recalled.tokens, "budget": max_tokens}
        print_json(result | {"items": items, "left_out": left})
    else:
        print_report(found)
