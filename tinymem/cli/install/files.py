"""Files of settings that are changed together: all or none, and only while they are what was read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tinymem.errors import InputError, undo_on_failure

__all__ = ["Revision", "back_up", "read_file", "replace_all"]


class Revision(NamedTuple):
    """A file as it was read, and as it is to be; None where there is no file."""

    path: Path
    before: bytes | None
    after: bytes | None


def read_file(path: Path) -> bytes | None:
    """Read a file, through links; None where there is none."""
    return path.read_bytes() if path.exists() else None


def back_up(revision: Revision) -> Revision:
    """Return the revision of the file beside a file that keeps what was in it."""
    path = revision.path.with_name(f"{revision.path.name}.bak")
    return Revision(path, read_file(path), revision.before)


def replace_all(revisions: Sequence[Revision]) -> None:
    """Write the files, each in one go; where one cannot be written, those before it get back what they had.

    Raises:
        InputError: A file cannot be written, or is not what was read; nothing was changed.
    """
    done: list[Revision] = []
    for revision in revisions:
        try:
            if read_file(revision.path) != revision.before:
                raise InputError("it was changed meanwhile: try again")
            _write(revision.path, revision.after)
        except (OSError, InputError) as error:
            for other in reversed(done):
                with suppress(OSError):
                    _write(other.path, other.before)
            raise InputError(f"{revision.path} cannot be written: {error}; nothing was changed") from error
        done.append(revision)


def _write(path: Path, content: bytes | None) -> None:
    """Write a file by way of one beside it, as private as it is from the first byte on; None takes it away."""
    if content is None:
        path.resolve().unlink()
        path.unlink(missing_ok=True)  # a link to it
        return
    path = path.resolve()  # a link into somebody's dotfiles stays one
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:50]}.")  # nobody else may read it
    with undo_on_failure(partial(os.unlink, name)):
        with open(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            if not os.access(path, os.W_OK):
                raise PermissionError(13, "it may only be read")
            status = path.stat()
            with suppress(OSError, AttributeError):  # only root can give a file away, and Windows has no owners
                os.chown(name, status.st_uid, status.st_gid)
            os.chmod(name, status.st_mode & 0o7777)
        os.replace(name, path)
