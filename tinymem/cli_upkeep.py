"""The commands that change a memory as a whole: `tinymem forget`, `retain` and `reindex`."""

from __future__ import annotations

import dataclasses
import re
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tinymem.cli_options import MEMORY, EmbedderOption, JsonOption, NamespaceOption, PathOption
from tinymem.cli_shared import opened, print_json
from tinymem.errors import InputError

if TYPE_CHECKING:
    from tinymem.retention import RetentionReport

__all__ = ["forget", "reindex", "retain"]

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say how many would go.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
TIME = "ISO 8601; UTC where it has no zone."
_UNITS = {
    "age": {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800},
    "size": {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
}


def forget(
    id: Annotated[list[str] | None, typer.Option("--id", help="A step's id; may be given again and again.")] = None,
    session: Annotated[str | None, typer.Option(help="Of this session.")] = None,
    before: Annotated[str | None, typer.Option(metavar="TIME", help=f"From before then. {TIME}")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="From then on.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Up to then.")] = None,
    speaker: Annotated[str | None, typer.Option(help="Said by this person.")] = None,
    tool: Annotated[str | None, typer.Option(help="That call this tool.")] = None,
    type: Annotated[str | None, typer.Option(help='Of this type, as in "action".')] = None,
    everything: Annotated[bool, typer.Option("--everything", help="The whole namespace: its folder goes.")] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = "static",
    as_json: JsonOption = False,
) -> None:
    """Remove steps for good, from every file: those with one of the ids, and those that all the filters let pass.

    Asks before it does so.

    Example: tinymem forget --speaker Ann --before 2025-01-01 --dry-run
    """
    filters: dict[str, Any] = {"session": session, "speaker": speaker, "tool": tool, "type": type}
    times = {"before": before, "since": since, "until": until}
    filters |= {name: None if text is None else _moment(name, text) for name, text in times.items()}
    if everything:
        if id or any(value is not None for value in filters.values()):
            raise InputError("--everything stands alone: without ids and filters")
        _forget_namespace(path, namespace, dry_run, yes, as_json)
        return
    with opened(path, namespace, embedder) as memory:
        count = memory.forget(id or (), **filters, dry_run=True)
        if count and not dry_run and _sure(f"Forget {count:,} steps of namespace {namespace!r} for good?", yes):
            count = memory.forget(id or (), **filters)
    if as_json:
        print_json({"steps": count, "dry_run": dry_run})
    else:
        typer.echo(f"{'Would forget' if dry_run else 'Forgot'} {count:,} steps.")


def _forget_namespace(path: Path, namespace: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    from tinymem.folders import namespace_folder
    from tinymem.forgetting import forget_namespace

    folder = namespace_folder(path, namespace, create=False)
    if not dry_run and _sure(f"Forget namespace {namespace!r} of {path}, all of it, for good?", yes):
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
    embedder: EmbedderOption = "static",
    as_json: JsonOption = False,
) -> None:
    """Forget what is over these limits; the window, pinned steps and milestones stay.

    Over --max-steps and --max-bytes, the least useful goes first: repetitions, common words, questions, and an
    assistant's own words. Asks before it does so; --dry-run says how much would go.

    Example: tinymem retain --max-age 90d --max-bytes 500MB
    """
    from tinymem.retention import Retention

    if max_age is None and max_steps is None and max_bytes is None:
        raise InputError("say what to retain: --max-age, --max-steps or --max-bytes")
    age = None if max_age is None else _age(max_age)
    limits = Retention(age, max_steps, None if max_bytes is None else _amount("size", max_bytes))
    with opened(path, namespace, embedder) as memory:
        report = memory.retain(limits, dry_run=True)
        if report.removed and not dry_run and _sure(_told(report, "Forget", "?"), yes):
            report = memory.retain(limits)
    if as_json:
        print_json(dataclasses.asdict(report) | {"reasons": report.reasons, "dry_run": dry_run})
    else:
        typer.echo(_told(report, "Would forget" if dry_run else "Forgot", f"; {report.kept:,} stay."))


def reindex(
    embedder: Annotated[str, typer.Option("--embedder", help="The new one: static, sentence-transformers:NAME, …")],
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Give a memory another embedder: all passages are embedded anew.

    The old vectors serve until all new ones are there. What was interrupted goes on where it was.

    Example: tinymem reindex --embedder sentence-transformers:all-MiniLM-L6-v2
    """
    from tinymem.progress import bar
    from tinymem.reindexing import reindex as embed_anew

    with bar(sys.stderr, "reindexing", "passages") as progress:
        done = embed_anew(path, embedder, namespace=namespace, progress=progress)
    if as_json:
        print_json(dataclasses.asdict(done))
    else:
        typer.echo(f"Embedded {done.embedded:,} of {done.passages:,} passages: from {done.before} to {done.after}.")


def _sure(question: str, yes: bool) -> bool:
    """True, or the end of the command: the answer was no, or nobody is there to give one."""
    if not yes:
        typer.echo(f"{question} [y/N] ", nl=False, err=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            typer.echo("Nothing was forgotten.", err=True)
            raise typer.Exit(1)
    return True


def _told(report: RetentionReport, what: str, end: str) -> str:
    why = ", ".join(f"{count:,} by {reason}" for reason, count in report.reasons.items())
    return f"{what} {len(report.removed):,} steps{f' ({why})' if why else ''}{end}"


def _moment(name: str, text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise InputError(
            f"--{name} must be a time such as 2025-03-01 or 2025-03-01T12:00+01:00, not {text!r}"
        ) from error
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


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
