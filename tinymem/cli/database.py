"""The commands for memories in PostgreSQL: `tinymem schema`, `migrate` and `scrub`."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated

import typer

from tinymem.cli.options import JsonOption
from tinymem.cli.shared import Target, on_memory, print_json, say
from tinymem.errors import InputError
from tinymem.steps.terminal import many

__all__ = ["migrate", "schema", "scrub"]


def schema() -> None:
    """Print the SQL that makes the tables, for psql; `tinymem migrate URL` runs the same.

    Example: tinymem schema | psql "$URL"
    """
    from tinymem.stores.journals import schema as script

    say(script(), nl=False)


def migrate(
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="A database whose tables to make, or bring up to date.")
    ] = None,
    source: Annotated[str | None, typer.Option("--from", metavar="PLACE", help="Copy from this folder or URL")] = None,
    target: Annotated[str | None, typer.Option("--to", metavar="PLACE", help="to this folder or URL.")] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", help="Only this namespace. Default: all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make the tables of a database or bring them up to date; or copy memories between folders and databases.

    A copy is compared with its source, byte for byte. After an interruption, the same command goes on where it stopped.
    Stop what adds to the source before.

    Example: tinymem migrate --from ./memory --to "$URL"
    """
    if url is not None and source is None and target is None and namespace is None:
        _bring_up(url, as_json)
    elif url is None and source is not None and target is not None:
        _copy(source, target, namespace, as_json)
    else:
        raise InputError("give the URL of a database, whose tables are made; or --from PLACE and --to PLACE, to copy")


def _bring_up(url: str, as_json: bool) -> None:
    from tinymem.stores.journals import is_address, migrate_tables, shown_address

    if not is_address(url):
        raise InputError("this is no address of a database: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE")
    before, after = migrate_tables(url)
    said = f"are of format {after} already" if before == after else f"were of format {before}, and are of {after} now"
    text = f"The tables of {shown_address(url)} {said if before else f'were made, of format {after}'}."
    _answer({"before": before, "after": after}, text, as_json)


def _copy(source: str, target: str, namespace: str | None, as_json: bool) -> None:
    from tinymem.steps.progress import bar
    from tinymem.upkeep.migration import migrate as copy

    with bar(sys.stderr, "copying", "steps and passages, copied and compared") as progress:
        done = copy(source, target, namespace=namespace, progress=progress)
    lines = [
        f"{one.namespace}: {many(one.steps, 'step')} and {many(one.passages, 'passage')} are the same in both places "
        f"(SHA-256 {one.checksum[:16]}...)"
        for one in done
    ]
    _answer([dataclasses.asdict(one) for one in done], "\n".join(lines), as_json)


@on_memory(without="namespace embedder")
def scrub(target: Target) -> None:
    """Write all tables of a database again, so that nothing in its files is left of what was forgotten.

    Nobody can use the memories meanwhile. What the server's log and backups keep, they keep. A folder needs no scrub.

    Example: tinymem scrub --path "$URL"
    """
    from tinymem.stores.journals import scrub_shared

    if not isinstance(place := target.place, str):
        raise InputError(f"{place} is a folder: what is forgotten there is gone from its files at once")
    before, after = scrub_shared(place)
    target.answer({"before": before, "after": after}, f"The tables take {after:,} bytes, after {before:,}.")


def _answer(record: object, text: str, as_json: bool) -> None:
    if as_json:
        print_json(record)
    else:
        say(text)
