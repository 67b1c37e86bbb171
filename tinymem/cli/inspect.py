"""The commands that show what is in a memory: `tinymem show`, `inspect`, `get`, `stats` and `namespaces`."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from tinymem.cli.options import MEMORY, EmbedderOption, JsonOption, NamespaceOption, PathOption
from tinymem.cli.shared import check_memory, opened, print_json, print_report

__all__ = ["get", "inspect", "namespaces", "show", "stats"]

LEAST_ID = 10  # characters of an id: what is shorter, and a number, is a step's number


def inspect(
    steps: Annotated[int, typer.Option(min=0, help="How many steps to list, the newest.")] = 50,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what a memory holds: tokens by tier, and its newest steps one by one.

    Example: tinymem inspect --steps 20
    """
    from tinymem.memory.inspection.report import report_of

    with opened(path, namespace, embedder) as memory:
        report = report_of(memory, steps)
    if as_json:
        print_json({"steps": report.steps, "tokens": report.tokens} | dataclasses.asdict(report))
    else:
        print_report(report)


def show(
    width: Annotated[int | None, typer.Option(min=1, help="Columns; those of the terminal unless given.")] = None,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw a memory: its tiers, window, sessions and episodes as bars to scale. Also: tinymem visualize.

    Example: tinymem show --width 100
    """
    from tinymem.memory.inspection.report import draw_memory

    with opened(path, namespace, embedder) as memory:
        picture = draw_memory(memory, width)
    if as_json:
        print_json(dataclasses.asdict(picture))
    else:
        print_report(picture)


def get(
    id: Annotated[str, typer.Argument(metavar="ID", help="A step's id, or its number.")],
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print one step, whole: what an excerpt of it leaves out is here.

    Example: tinymem get 42
    """
    with opened(path, namespace, embedder) as memory:
        step = memory.get(int(id) if id.isdecimal() and len(id) < LEAST_ID else id)
    if as_json:
        print_json(step.to_dict())
        return
    facts = (f"step {step.step_number}", step.type, step.session, step.speaker, f"{step.timestamp:%Y-%m-%d %H:%M} UTC")
    typer.echo(f"{', '.join(filter(None, facts))}, id {step.id}", err=True)
    typer.echo("\n\n".join(f"[{part.kind}]\n{part.text}" for part in step.parts()))


def namespaces(path: PathOption = MEMORY, as_json: JsonOption = False) -> None:
    """List the namespaces of a memory, one a line.

    Example: tinymem namespaces --path ./memory
    """
    from tinymem.archive.folders import namespaces as names_in

    names = names_in(path)
    if not names:
        check_memory(path, "default")  # says what to type
    if as_json:
        print_json(names)
    else:
        typer.echo("\n".join(names))


def stats(
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print how much a memory holds.

    Example: tinymem stats --path ./memory --json
    """
    with opened(path, namespace, embedder) as memory:
        values = dataclasses.asdict(memory.stats())
    if as_json:
        print_json(values)
        return
    for name, value in values.items():
        shown = f"{value:,}" if isinstance(value, int) else value
        typer.echo(f"{name.replace('_', ' '):<16}{shown}")
