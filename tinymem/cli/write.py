"""The commands that write into a memory by hand: `tinymem add`, `tinymem mark` and `tinymem correct`."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated, Any

import typer

from tinymem.cli.options import parse_where
from tinymem.cli.shared import Target, on_memory
from tinymem.errors import InputError
from tinymem.steps.terminal import pluralize

__all__ = ["add", "correct", "mark"]

STDIN = "-"


class Role(str, Enum):
    """The role of a message."""

    user = "user"
    assistant = "assistant"


IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The number of a step, such as 12, or its id.")]
TextArgument = Annotated[
    list[str], typer.Argument(metavar="TEXT", help="The words, quoted or not; - reads standard input.")
]


def _read(words: list[str]) -> str:
    text = sys.stdin.read() if words == [STDIN] else " ".join(words)
    if not text.strip():
        raise InputError("there is no text to add: write it behind the command, or give - and standard input")
    return text


@on_memory(without="")
def add(
    target: Target,
    text: TextArgument,
    role: Annotated[Role, typer.Option(help="Who says it.")] = Role.user,
    speaker: Annotated[str | None, typer.Option(help="The name of who says it.")] = None,
    session: Annotated[str | None, typer.Option(help="The conversation that it belongs to.")] = None,
    time: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it was said; ISO 8601, UTC where it has no zone.")
    ] = None,
    metadata: Annotated[
        list[str] | None, typer.Option("--metadata", metavar="KEY=VALUE", help="What `--where` finds it by.")
    ] = None,
) -> None:
    """Add a message to a memory, which is made where there is none.

    Example: tinymem add The staging server is at 10.0.0.7. --speaker Ann
    """
    said = _read(text)
    with target.open(create=True) as memory:
        step = memory.add_message(
            role.value, said, speaker=speaker, session=session, timestamp=time, metadata=parse_where(metadata)
        )
    target.answer({"step": step.step_number, "id": step.id}, f"Added as #{step.step_number} to {target.display_path}.")


@on_memory()
def mark(
    target: Target,
    id: IdArgument,
    undo: Annotated[bool, typer.Option("--undo", help="Make it none.")] = False,
) -> None:
    """Make a step a milestone, which ranks a little higher in recall.

    Example: tinymem mark 12
    """
    with target.open(writes=True) as memory:
        memory.mark(id, not undo)
        step = memory.get(id)
    said = f"#{step.step_number} is {'no' if undo else 'a'} milestone now."
    target.answer({"step": step.step_number, "id": step.id, "milestone": not undo}, said)


@on_memory()
def correct(target: Target, id: IdArgument, text: TextArgument) -> None:
    """Correct what a step says: from now on the correction is recalled in its place.

    The step stays in the history.

    Example: tinymem correct 12 The staging server is at 10.0.0.8.
    """
    said = _read(text)
    with target.open(writes=True) as memory:
        step = memory.correct(id, said)
    corrected = list(step.metadata["corrects"])
    record: dict[str, Any] = {"step": step.step_number, "id": step.id, "corrects": corrected}
    target.answer(record, f"Added as #{step.step_number}, which corrects {pluralize(len(corrected), 'step')}.")
