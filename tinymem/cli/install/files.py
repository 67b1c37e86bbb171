"""Files of settings that are changed together: all or none, and only while they are what was read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tinymem.errors import InputError, undo_on_failure

__all__ = ["ChangedMeanwhileError", "Revision", "read_settings", "replace_all"]


class ChangedMeanwhileError(InputError):
    """Somebody else wrote a file after it was read."""


@dataclass(frozen=True)
class Revision:
    """A file as it was read, and as it is to be; None where there is no file."""

    path: Path
    before: bytes | None
    after: bytes | None


def read_settings(path: Path) -> bytes | None:
    """Read a file, through links; None where there is none."""
    if not path.exists():
        return None
    if not path.is_file():
        raise InputError("it is no file")
    return path.read_bytes()


def replace_all(revisions: Sequence[Revision]) -> None:
    """Write the files, each in one go; where one cannot be written, those before it get back what they had.

    Raises:
        ChangedMeanwhileError: A file is not what was read; nothing was changed.
        InputError: A file cannot be written; nothing was changed.
    """
    copies: list[Path | None] = []
    done: list[Revision] = []
    path = Path()
    try:
        for revision in revisions:
            path = revision.path
            copies.append(None if revision.after is None else _write_copy(path, revision.after))
        for revision, copy in zip(revisions, copies, strict=True):
            path = revision.path
            if read_settings(path) != revision.before:
                raise ChangedMeanwhileError(f"{path} was changed meanwhile; nothing was changed here: try again")
            _move(copy, path)
            done.append(revision)
    except (OSError, InputError) as error:
        for revision in reversed(done):
            _put_back(revision)
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be written: {error.strerror or error}; nothing was changed") from error
    finally:
        for copy in copies:
            if copy is not None:
                copy.unlink(missing_ok=True)


def _put_back(revision: Revision) -> None:
    """Give a file back what it had, unless somebody else wrote it meanwhile."""
    with suppress(OSError):
        if read_settings(revision.path) == revision.after:
            _move(None if revision.before is None else _write_copy(revision.path, revision.before), revision.path)


def _move(copy: Path | None, path: Path) -> None:
    if copy is None:
        path.unlink()
    else:
        os.replace(copy, path)


def _write_copy(path: Path, content: bytes) -> Path:
    """Write a file beside the one that it will replace, as private as that is from the first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:50]}.")  # nobody else may read it
    copy = Path(name)
    with undo_on_failure(partial(copy.unlink, missing_ok=True)):
        with open(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            status = path.stat()
            if not os.access(path, os.W_OK):
                raise PermissionError(13, "it may only be read")
            with suppress(OSError, AttributeError):  # only root can give a file away, and Windows has no owners
                os.chown(copy, status.st_uid, status.st_gid)
            os.chmod(copy, status.st_mode & 0o7777)
    return copy
