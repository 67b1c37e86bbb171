"""The commands that forget (`tinymem forget`, `retain`) and repair (`doctor`, `rebuild`, `reindex`)."""

from __future__ import annotations

import dataclasses
import re
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from tinymem.cli.options import StoreOption
from tinymem.cli.shared import FilteredTarget, Target, confirm, on_memory, say
from tinymem.errors import InputError, NotAMemoryError
from tinymem.steps.terminal import pluralize

if TYPE_CHECKING:
    from tinymem.upkeep.retention import RetentionReport

__all__ = ["doctor", "forget", "rebuild", "reindex", "retain"]

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say how many steps would go.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
LONGEST_AGE = timedelta.max.days * 86_400  # seconds
UNITS = {
    "age": {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800},
    "size": {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
}


@on_memory()
def forget(
    target: FilteredTarget,
    id: Annotated[
        list[str] | None, typer.Option("--id", help="The number or the id of a step; may be given several times.")
    ] = None,
    everything: Annotated[bool, typer.Option("--everything", help="The whole namespace, its folder included.")] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Remove steps for good, from every file: those with one of the ids, and those that match all filters.

    Asks first.

    Example: tinymem forget --speaker Ann --until 2024-12-31 --dry-run
    """
    from tinymem.upkeep.forgetting import sessions_repeated_by

    chosen, session = target.filters(), target.session
    if everything:
        if id or any(value is not None for value in chosen.values()):
            raise InputError("--everything stands alone: without ids and filters")
        _forget_namespace(target, dry_run, yes)
        return
    with target.open(writes=not dry_run) as memory:
        ids = [memory.get(name).id for name in id or ()]
        count = memory.forget(ids, **chosen, dry_run=True)
        if count and not dry_run:
            _confirm(f"Forget {pluralize(count, 'step')} of namespace {target.namespace!r} for good?", yes)
            count = memory.forget(ids, **chosen)
        others = sessions_repeated_by(memory.long_term, session) if session is not None else []
    said = f"{'Would forget' if dry_run else 'Forgot'} {pluralize(count, 'step')}."
    if others:
        said += f" What {session} repeats of {', '.join(others)} stays there, and goes with `--session {others[0]}`."
    target.answer({"steps": count, "dry_run": dry_run} | ({"repeated": others} if others else {}), said)


def _forget_namespace(target: Target, dry_run: bool, yes: bool) -> None:
    from tinymem.archive.folders import namespaces
    from tinymem.upkeep.forgetting import forget_namespace

    place, name = target.place, target.namespace
    what = f"namespace {name!r} of {target.display_path}"
    if name not in namespaces(place):
        raise NotAMemoryError(f"there is no {what}")
    if not dry_run:
        _confirm(f"Forget {what}, all of it, for good?", yes)
        forget_namespace(place, name)
    record = {"namespace": name, "path": target.display_path, "dry_run": dry_run}
    target.answer(record, f"{'Would remove' if dry_run else 'Removed'} {what}.")


@on_memory()
def retain(
    target: Target,
    max_age: Annotated[str | None, typer.Option(metavar="AGE", help="Such as 90d; units w, d, h, m (minutes).")] = None,
    max_steps: Annotated[int | None, typer.Option(min=0, help="How many steps may stay.")] = None,
    max_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="How large the journal's file may be, such as 500MB.")
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Forget what is over these limits; the window, pinned steps and milestones stay.

    Over --max-steps and --max-bytes, calls of tools and their results go first, then the words of the assistant, and
    last those of people; of each the oldest. Asks first; --dry-run says how much would go.

    Example: tinymem retain --max-age 90d --max-bytes 500MB
    """
    from tinymem.upkeep.retention import Retention

    if max_age is None and max_steps is None and max_bytes is None:
        raise InputError("say what to retain: --max-age, --max-steps or --max-bytes")
    age = None if max_age is None else timedelta(seconds=min(_amount("age", max_age), LONGEST_AGE))
    limits = Retention(age, max_steps, None if max_bytes is None else _amount("size", max_bytes))
    with target.open(writes=not dry_run) as memory:
        report = memory.retain(limits, dry_run=True)
        if report.removed and not dry_run:
            _confirm(_summary(report, "Forget", "?"), yes)
            report = memory.retain(limits)
    record = dataclasses.asdict(report) | {"reasons": report.reasons, "dry_run": dry_run}
    target.answer(record, _summary(report, "Would forget" if dry_run else "Forgot", f"; {report.kept:,} stay."))


@on_memory()
def reindex(
    target: Target,
    embedder: Annotated[str, typer.Option("--embedder", help="The new one, such as sentence-transformers:NAME.")],
) -> None:
    """Give a memory another embedder: all passages are embedded again.

    Recall uses the old vectors until all new ones are there. After an interruption, the same command goes on where it
    stopped.

    Example: tinymem reindex --embedder sentence-transformers:all-MiniLM-L6-v2
    """
    from tinymem.steps.progress import show_progress
    from tinymem.upkeep.reindexing import reindex as embed_again

    with show_progress(sys.stderr, "reindexing", "passages") as progress:
        done = embed_again(target.place, embedder, namespace=target.namespace, progress=progress)
    text = f"Embedded {done.embedded:,} of {pluralize(done.passages, 'passage')}: from {done.before} to {done.after}."
    target.answer(dataclasses.asdict(done), text)


@on_memory()
def doctor(target: Target, store: StoreOption = "chroma") -> None:
    """Check a memory's files: the journal, its full-text index, and the index of vectors.

    Nothing is changed. Each finding says what to do; exit status 1 if there is one.

    Example: tinymem doctor --path ./memory
    """
    from tinymem.upkeep.diagnosis import doctor as examine

    found = examine(target.place, target.namespace, store=store)
    names = {name: name.replace("_", " ") for name in found.counts}
    looked_at = ", ".join(  # as "1 step" or "3 in index"
        pluralize(count, names[name].removesuffix("s")) if name.endswith("s") else f"{count:,} {names[name]}"
        for name, count in found.counts.items()
    )
    summary = f"{'Sound' if found.sound else pluralize(len(found.findings), 'finding')}: {looked_at or 'nothing'}."
    record = {"sound": found.sound, **dataclasses.asdict(found)}
    target.answer(record, "\n".join([*map(str, found.findings), summary]))
    raise typer.Exit(0 if found.sound else 1)


@on_memory()
def rebuild(target: Target, store: StoreOption = "chroma") -> None:
    """Make a memory's index again from the vectors in its journal; nothing is embedded.

    Example: tinymem rebuild --path ./memory
    """
    from tinymem.steps.progress import show_progress
    from tinymem.upkeep.diagnosis import rebuild as remake

    with show_progress(sys.stderr, "rebuilding", "vectors") as progress:
        vectors = remake(target.place, target.namespace, store=store, progress=progress)
    none = "There is no index to make: no step has left the window, or passages wait until the memory is opened."
    target.answer(
        {"vectors": vectors}, f"The index was made again, of {pluralize(vectors, 'vector')}." if vectors else none
    )


# -- inside -----------------------------------------------------------------------------------------------------------


def _confirm(question: str, yes: bool) -> None:
    """End the command unless the answer is yes."""
    if not yes and not confirm(question):
        say("Nothing was forgotten.", err=True)
        raise typer.Exit(1)


def _summary(report: RetentionReport, what: str, end: str) -> str:
    why = ", ".join(f"{count:,} by {reason}" for reason, count in report.reasons.items())
    return f"{what} {pluralize(len(report.removed), 'step')}{f' ({why})' if why else ''}{end}"


def _amount(kind: str, text: str) -> int:
    """Parse a number with a unit; return seconds or bytes."""
    found = re.fullmatch(r"([0-9]{1,15}) ?([A-Za-z]*)", text)
    if found is None or found[2] not in UNITS[kind]:
        units = ", ".join(filter(None, UNITS[kind]))
        raise InputError(f"{text!r} is no {kind}: give a whole number and a unit of {units}")
    return int(found[1]) * UNITS[kind][found[2]]
