"""Lines of shell commands: files that they show, and those of which nobody knows afterwards what stands in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import dropwhile
from typing import NamedTuple

from tinymem.coding.acts import SEEN, Act, acts_of_patch, full_path, has_suffix, read, reset
from tinymem.coding.lines import code_lines

__all__ = ["acts_of_command", "acts_of_search", "commands_of"]

LONGEST = 6_000  # characters of a command, without the texts in it
PATCH = "*** Begin Patch"
# What a program shows of the files that it names: all, a part, a part of the last one, or what it finds
ALL, PART, LAST, SEARCH = "all", "part", "last", "search"
SHOWS = {"cat": ALL, "nl": ALL, "head": PART, "tail": PART, "sed": LAST, "rg": SEARCH, "grep": SEARCH}
CHANGES = ("mv", "cp", "patch", "tee")  # what stands in a file
MOST_TEXTS = 32  # here-documents in a line: of one with more nobody knows what it did
_CHANGES_GIT = re.compile(
    r"git (?!.*(?: -[bBc]\b|--soft| list| show)).*\b(?:checkout|restore|stash|reset|revert|switch)\b.*"
)
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1([^\n]*)\n(.*?)\n?^[ \t]*\2[ \t]*$", re.DOTALL | re.MULTILINE)
_FOUND = re.compile(r"(?m)^((?:[A-Za-z]:)?[^\s:]{1,300}):\d+[:](.*)$")
_PLAIN = re.compile(r"(?!-|[sy]([/|,]).*\1)[\w./~@+-]*[A-Za-z_][\w./~@+-]*")  # a path: no option, wildcard, variable
_BEFORE = re.compile(r"\w+=.*|sudo|command|env|time")  # what may stand before a program
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_REDIRECTED = re.compile(r"(?<!\S)[12]?(&?>>?|<+)\s*([^\s<>]+)")
_ENDS = re.compile(r"(?<!>)&+(?!>)|[|;\n()]+")


class Command(NamedTuple):
    """A simple command of a line, the files that its output replaces, and whether that goes elsewhere."""

    program: str
    words: list[str]
    targets: list[str]
    is_redirected: bool


def acts_of_command(line: str, output: str, folder: str = "", is_cut: bool = False) -> list[Act]:
    """Return which files the commands of a line changed, and what they showed in its `output`, which may be cut."""
    if line.count("<<") > MOST_TEXTS:
        return [reset("")]
    acts, shown, kinds = list[Act](), list[str](), set[str]()
    for command in commands_of(line):
        if command.program == "cd" and command.words:
            folder = full_path(command.words[0], folder)
        paths = [full_path(word, folder) for word in command.words if _PLAIN.fullmatch(word)]
        changed = _changed(command, paths)
        acts += map(reset, [*changed, *(full_path(name, folder) for name in command.targets)])
        kind = "" if command.is_redirected or changed else SHOWS.get(command.program, "")
        kinds.add(ALL if command.program in ("", "cd") else kind)
        shown += _shown(kind, paths)
    if PATCH in line:
        return acts_of_patch(line, folder)
    every = [*dict.fromkeys(shown)]
    if SEARCH in kinds:
        acts += acts_of_search(output, folder, every[0] if len(every) == 1 else "")
    else:
        is_whole = len(shown) == 1 and not is_cut and kinds == {ALL}
        acts += [read(path, output, is_whole) for path in every]
    return [*dict.fromkeys(acts)]


def _shown(kind: str, paths: list[str]) -> Iterable[str]:
    """Return which of the paths in a command are those of the files that it shows, if it shows this."""
    if kind == SEARCH:
        return filter(has_suffix, paths[-1:])
    return paths[-1:] if kind == LAST else paths if kind else ()


def _changed(command: Command, paths: list[str]) -> list[str]:
    """Return the files that a command changed, nobody knows how, of the `paths` in it; "" for all."""
    program, words = command.program, command.words
    if program in CHANGES or (program == "sed" and any(word.startswith("-i") for word in words)):
        return paths
    if _CHANGES_GIT.fullmatch(" ".join([program, *words])):
        return [*filter(has_suffix, paths[1:])] or [""]
    return []


def acts_of_search(output: str, folder: str, path: str = "") -> list[Act]:
    """Return the acts of seeing what a search found, in the files that it names, or in the one at `path`."""
    found: dict[str, list[str]] = {}
    for match in _FOUND.finditer(output):
        found.setdefault(full_path(match[1], folder), []).append(match[2])
    if not found:
        return [read(path, output, is_whole=False)] if path else []
    return [Act(name, SEEN, tuple(code_lines("\n".join(lines)))) for name, lines in sorted(found.items())]


def commands_of(line: str) -> Iterator[Command]:
    """Yield the simple commands of a line."""
    plain = _HEREDOC.sub(r"<<HERE\3", line)[:LONGEST].replace("2>&1", "")
    plain = _QUOTED.sub(lambda said: said[0][1:-1] if _PLAIN.fullmatch(said[0][1:-1]) else "''", plain)
    for command in _ENDS.split(plain):
        outputs = [sent for sent in _REDIRECTED.finditer(command) if ">" in sent[1]]
        targets = [sent[2] for sent in outputs if ">>" not in sent[1] and not sent[2].startswith("/dev/")]
        words = [*dropwhile(_BEFORE.fullmatch, _REDIRECTED.sub(" ", command).split())]
        yield Command(words[0].rsplit("/", 1)[-1] if words else "", words[1:], targets, bool(outputs))
