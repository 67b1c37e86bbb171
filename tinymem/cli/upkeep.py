"""The commands that change a memory as a whole: `tinymem forget`, `retain` and `reindex`."""

from __future__ import annotations

import dataclasses
import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tinymem.cli.counting import counted
from tinymem.cli.options import (
    MEMORY,
    EmbedderOption,
    JsonOption,
    NamespaceOption,
    PathOption,
    SessionOption,
    SinceOption,
    SpeakerOption,
    ToolOption,
    TypeOption,
    UntilOption,
    moment,
)
from tinymem.cli.shared import agreed, check_memory, opened, print_json
from tinymem.errors import InputError

if TYPE_CHECKING:
    from tinymem.upkeep.retention import RetentionReport

__all__ = ["forget", "reindex", "retain"]

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say how many would go.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
_UNITS = {
    "age": {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800},
    "size": {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
}


def forget(
    id: Annotated[list[str] | None, typer.Option("--id", help="A step's id; may be given again and again.")] = None,
    session: SessionOption = None,
    before: Annotated[str | None, typer.Option(metavar="TIME", help="From before then.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    speaker: SpeakerOption = None,
    tool: ToolOption = None,
    type: TypeOption = None,
    everything: Annotated[bool, typer.Option("--everything", help="The whole namespace: its folder goes.")] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove steps for good, from every file: those with one of the ids, and those that all the filters let pass.

    Asks before it does so.

    Example: tinymem forget --speaker Ann --before 2025-01-01 --dry-run
    """
    filters: dict[str, Any] = {"session": session, "speaker": speaker, "tool": tool, "type": type}
    times = {"before": before, "since": since, "until": until}
    filters |= {name: moment(name, text) for name, text in times.items()}
    if everything:
        if id or any(value is not None for value in filters.values()):
            raise InputError("--everything stands alone: without ids and filters")
        _forget_namespace(path, namespace, dry_run, yes, as_json)
        return
    with opened(path, namespace, embedder) as memory:
        count = memory.forget(id or (), **filters, dry_run=True)
        if count and not dry_run:
            _be_sure(f"Forget {counted(count, 'step')} of namespace {namespace!r} for good?", yes)
            count = memory.forget(id or (), **filters)
    if as_json:
        print_json({"steps": count, "dry_run": dry_run})
    else:
        typer.echo(f"{'Would forget' if dry_run else 'Forgot'} {counted(count, 'step')}.")


def _forget_namespace(path: Path, namespace: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    from tinymem.archive.folders import namespace_folder
    from tinymem.upkeep.forgetting import forget_namespace

    check_memory(path, namespace)
    folder = namespace_folder(path, namespace, create=False)
    if not dry_run:
        _be_sure(f"Forget namespace {namespace!r} of {path}, all of it, for good?", yes)
        forget_namespace(path, namespace)
    if as_json:
        print_json({"namespace": namespace, "folder": str(folder), "dry_run": dry_run})
    else:
        typer.echo(f"{'Would remove' if dry_run else 'Removed'} {folder}.")


def retain(
    max_age: Annotated[str | None, typer.Option(metavar="AGE", help="As in 90d; also w, h and m (minutes).")] = None,
    max_steps: Annotated[int | None, typer.Option(min=0, help="How many steps may stay.")] = None,
    max_bytes: Annotated[str | None, typer.Option(metavar="SIZE", help="Of the journal's file, as in 500MB.")] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget what is over these limits; the window, pinned steps and milestones stay.

    Over --max-steps and --max-bytes, the least useful goes first: repetitions, common words, questions, and an
    assistant's own words. Asks before it does so; --dry-run says how much would go.

    Example: tinymem retain --max-age 90d --max-bytes 500MB
    """
    from tinymem.upkeep.retention import Retention

    if max_age is None and max_steps is None and max_bytes is None:
        raise InputError("say what to retain: --max-age, --max-steps or --max-bytes")
    age = None if max_age is None else _age(max_age)
    limits = Retention(age, max_steps, None if max_bytes is None else _amount("size", max_bytes))
    with opened(path, namespace, embedder) as memory:
        report = memory.retain(limits, dry_run=True)
        if report.removed and not dry_run:
            _be_sure(_summary(report, "Forget", "?"), yes)
            report = memory.retain(limits)
    if as_json:
        print_json(dataclasses.asdict(report) | {"reasons": report.reasons, "dry_run": dry_run})
    else:
        typer.echo(_summary(report, "Would forget" if dry_run else "Forgot", f"; {report.kept:,} stay."))


def reindex(
    embedder: Annotated[str, typer.Option("--embedder", help="The new one: static, sentence-transformers:NAME, …")],
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Give a memory another embedder: all passages are embedded again.

    The old vectors serve until all new ones are there. What was interrupted goes on where it was.

    Example: tinymem reindex --embedder sentence-transformers:all-MiniLM-L6-v2
    """
    from tinymem.upkeep.progress import bar
    from tinymem.upkeep.reindexing import reindex as embed_again

    check_memory(path, namespace)
    with bar(sys.stderr, "reindexing", "passages") as progress:
        done = embed_again(path, embedder, namespace=namespace, progress=progress)
    if as_json:
        print_json(dataclasses.asdict(done))
    else:
        typer.echo(
            f"Embedded {done.embedded:,} of {counted(done.passages, 'passage')}: from {done.before} to {done.after}."
        )


def _be_sure(question: str, yes: bool) -> None:
    """End the command unless the answer is yes."""
    if not yes and not agreed(question):
        typer.echo("Nothing was forgotten.", err=True)
        raise typer.Exit(1)


def _summary(report: RetentionReport, what: str, end: str) -> str:
    why = ", ".join(f"{count:,} by {reason}" for reason, count in report.reasons.items())
    return f"{what} {counted(len(report.removed), 'step')}{f' ({why})' if why else ''}{end}"


def _age(text: str) -> timedelta:
    try:
        return timedelta(seconds=_amount("age", text))
    except OverflowError:
        return timedelta.max


def _amount(kind: str, text: str) -> int:
    """A number with a unit, in seconds or bytes."""
    found = re.fullmatch(r"([0-9]{1,15}) ?([A-Za-z]*)", text)
    if found is None or found[2] not in _UNITS[kind]:
        units = ", ".join(filter(None, _UNITS[kind]))
        raise InputError(f"{text!r} is no {kind}: give a whole number and a unit of {units}")
    return int(found[1]) * _UNITS[kind][found[2]]
