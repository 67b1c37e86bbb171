"""The commands that show what is in a memory: `tinymem show`, `inspect`, `get`, `stats` and `namespaces`."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from tinymem.cli.shared import Target, on_memory

__all__ = ["get", "inspect", "namespaces", "show", "stats"]

LEAST_ID = 10  # characters of an id; a shorter number is a step's number


@on_memory()
def inspect(
    target: Target,
    steps: Annotated[int, typer.Option(min=0, help="How many of the newest steps to list.")] = 50,
) -> None:
    """Print what a memory holds: tokens by tier, and its newest steps one by one.

    Example: tinymem inspect --steps 20
    """
    from tinymem.memory.inspection.report import report_of

    with target.opened() as memory:
        report = report_of(memory, steps)
    target.answer({"steps": report.steps, "tokens": report.tokens} | dataclasses.asdict(report), report)


@on_memory()
def show(
    target: Target,
    width: Annotated[int | None, typer.Option(min=1, help="Columns. Default: those of the terminal.")] = None,
) -> None:
    """Draw a memory: its tiers, window, sessions and episodes as bars to scale. Also: tinymem visualize.

    Example: tinymem show --width 100
    """
    from tinymem.memory.inspection.picture import draw_memory

    with target.opened() as memory:
        picture = draw_memory(memory, width)
    target.answer(dataclasses.asdict(picture), picture)


@on_memory()
def get(
    target: Target, id: Annotated[str, typer.Argument(metavar="ID", help="The id or the number of a step.")]
) -> None:
    """Print one step, whole, also what an excerpt of it leaves out.

    Example: tinymem get 42
    """
    with target.opened() as memory:
        step = memory.get(int(id) if id.isdecimal() and len(id) < LEAST_ID else id)
    if not target.as_json:
        when = f"{step.timestamp:%Y-%m-%d %H:%M} UTC"
        facts = (f"step {step.step_number}", step.type, step.session, step.speaker, when, f"id {step.id}")
        typer.echo(", ".join(filter(None, facts)), err=True)
    target.answer(step.to_dict(), "\n\n".join(f"[{part.kind}]\n{part.text}" for part in step.parts()))


@on_memory(without="namespace embedder")
def namespaces(target: Target) -> None:
    """List the namespaces of a memory, one a line.

    Example: tinymem namespaces --path ./memory
    """
    from tinymem.archive.folders import namespaces as names_in

    names = names_in(target.place)
    if not names:
        target.check()  # says what to type
    target.answer(names, "\n".join(names))


@on_memory()
def stats(target: Target) -> None:
    """Print how much a memory holds.

    Example: tinymem stats --path ./memory --json
    """
    with target.opened() as memory:
        values = dataclasses.asdict(memory.stats())
    shown = {name: f"{value:,}" if isinstance(value, int) else value for name, value in values.items()}
    target.answer(values, "\n".join(f"{name.replace('_', ' '):<16}{value}" for name, value in shown.items()))
