"""Patches: those of Codex, and unified diffs."""

from __future__ import annotations

import re

from tinymem.recall.files.acts import Act, edit, full_path, unknown, write

__all__ = ["acts_of_patch"]

_FILE = re.compile(r"(?m)^(?:\*\*\* (Add|Update|Delete) File: |(?:--- \S.*\n)?(\+\+\+) (?:b/)?)(.+?)(?:\t.*)?$")
_MOVED = re.compile(r"(?m)^\*\*\* Move to: (.+)$")


def acts_of_patch(patch: str, folder: str = "") -> list[Act]:
    """Return what a patch does to each of its files."""
    found = [*_FILE.finditer(patch)]
    ends = [*(match.start() for match in found[1:]), len(patch)]
    acts: list[Act] = []
    for match, end in zip(found, ends, strict=True):
        path, hunks = full_path(match[3], folder), patch[match.end() : end]
        added = _lines(hunks, "+")
        if match[1] == "Add":
            acts.append(write(path, added))
        elif match[1] == "Delete":
            acts.append(write(path, ""))
        elif (moved := _MOVED.search(hunks)) is not None:
            acts += [unknown(path), unknown(full_path(moved[1], folder))]
        else:
            acts.append(edit(path, _lines(hunks, "- "), _lines(hunks, "+ ")))
    return acts


def _lines(hunks: str, signs: str) -> str:
    return "\n".join(line[1:] for line in hunks.splitlines() if line[:1] and line[0] in signs)
