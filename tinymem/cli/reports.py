"""The commands that say what is in a memory: `tinymem show`, `get` and `namespaces`."""

from __future__ import annotations

from typing import Annotated

import typer

from tinymem.cli.shared import Target, on_memory, say

__all__ = ["get", "namespaces", "show"]


@on_memory()
def show(
    target: Target,
    steps: Annotated[int, typer.Option(min=0, help="How many of the newest steps to list.")] = 16,
) -> None:
    """Print what a memory holds: its tiers, sessions, episodes and newest steps. Also: tinymem visualize.

    Example: tinymem show --steps 5
    """
    from tinymem.memory.inspection.report import report_of

    with target.open() as memory:
        report = report_of(memory, steps)
        target.answer(report.record(), report)


@on_memory()
def get(
    target: Target, id: Annotated[str, typer.Argument(metavar="ID", help="The id or the number of a step.")]
) -> None:
    """Print one step, whole, also what an excerpt of it leaves out.

    Example: tinymem get 42
    """
    with target.open() as memory:
        step = memory.get(id)
    if not target.as_json:
        from tinymem.steps.types import shown_time

        facts = (f"step {step.step_number}", step.type, step.session, step.speaker, shown_time(step), f"id {step.id}")
        say(", ".join(filter(None, facts)), err=True)
    target.answer(step.to_dict(), "\n\n".join(f"[{part.kind}]\n{part.text}" for part in step.parts()))


@on_memory(without="namespace embedder")
def namespaces(target: Target) -> None:
    """List the namespaces of a memory, one a line.

    Example: tinymem namespaces --path ./memory
    """
    from tinymem.archive.folders import namespaces as names_in

    names = names_in(target.place)
    if not names:
        target.open().close()  # says what to type
    target.answer(names, "\n".join(names))
