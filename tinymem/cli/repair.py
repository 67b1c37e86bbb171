"""The commands that look after a memory's files: `tinymem doctor` and `rebuild`."""

from __future__ import annotations

import dataclasses
import sys

import typer

from tinymem.cli.options import StoreOption
from tinymem.cli.shared import Target, on_memory
from tinymem.steps.terminal import many

__all__ = ["doctor", "rebuild"]


@on_memory(without="embedder")
def doctor(target: Target, store: StoreOption = "chroma") -> None:
    """Check a memory's files: the journal, its full-text index, and the index of vectors.

    Nothing is changed. Each finding says what to do; exit status 1 if there is one.

    Example: tinymem doctor --path ./memory
    """
    from tinymem.upkeep.diagnosis import doctor as examine

    target.check()
    found = examine(target.place, target.namespace, store=store)
    looked_at = ", ".join(_amount(name, value) for name, value in found.counts.items())
    summary = f"{'Sound' if found.sound else many(len(found.findings), 'finding')}: {looked_at or 'nothing'}."
    record = {"sound": found.sound, **dataclasses.asdict(found)}
    target.answer(record, "\n".join([*map(str, found.findings), summary]))
    raise typer.Exit(0 if found.sound else 1)


@on_memory(without="embedder")
def rebuild(target: Target, store: StoreOption = "chroma") -> None:
    """Make a memory's index again from the vectors in its journal; nothing is embedded.

    Example: tinymem rebuild --path ./memory
    """
    from tinymem.steps.progress import bar
    from tinymem.upkeep.diagnosis import rebuild as remake

    target.check()
    with bar(sys.stderr, "rebuilding", "vectors") as progress:
        vectors = remake(target.place, target.namespace, store=store, progress=progress)
    none = "There is no index to make: no step has left the window yet."
    target.answer({"vectors": vectors}, f"The index was made again, of {many(vectors, 'vector')}." if vectors else none)


def _amount(name: str, value: int) -> str:
    """An amount in words, as "1 step" or "3 in index"."""
    name = name.replace("_", " ")
    return many(value, name.removesuffix("s")) if name.endswith("s") else f"{value:,} {name}"
