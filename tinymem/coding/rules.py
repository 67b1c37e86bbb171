"""Rules for files: what a person said of a file, of a folder, or of the edit that was just made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase as fnmatch
from itertools import chain, takewhile
from typing import TypeAlias

from tinymem.coding.acts import Act, full_path, has_suffix
from tinymem.coding.tools import edits_in
from tinymem.recall.query.rules import is_rule
from tinymem.steps.actions import ActionStep
from tinymem.steps.standins import is_from_user
from tinymem.steps.step import Step

__all__ = ["keys_of", "rule_among", "rules_of"]

RULED = "rule://"  # how the path of a note of a file's rule begins, and no other
NOTED = 21  # the kind of such a note
LONGEST = 4_000  # characters of what somebody says that are looked at
SHORT, MOST = 300, 3  # characters of what is said of an edit, and files that it may be said of
_SENTENCES = re.compile(r"(?<=[.!;])\s+|\n+")
_KEEPS = re.compile(
    r"\b(?:keep|leave)\b.{0,40}\b(?:old|existing|current|original|same|untouched|unchanged|alone|as (?:it|they|that)|"
    r"(?:it|that|this|them) as)\b|(?:^|[.,;:!]\s*|\bplease\s+)(?:revert|restore|undo)\b|\b(?:must|should) stay\b",
    re.IGNORECASE,
)
_NAMES = re.compile(r"(?<![\w/:.~-])(?:\*\*/|\./|/)?((?:[\w.@*+-]+/)*[\w.@*+-]*)(?<!\.)")
Rule: TypeAlias = tuple[str, list[str]]  # a sentence, and the files and folders that it names


def rules_in(text: str) -> Iterator[Rule]:
    """Yield the sentences that say what is to be done or left.

    >>> list(rules_in("Thanks. Please do not edit `generated/`, it is built."))
    [('Please do not edit `generated/`, it is built.', ['generated/'])]
    """
    for sentence in map(str.strip, _SENTENCES.split(text[:LONGEST])):
        if "?" not in sentence and (is_rule(sentence) or _KEEPS.search(sentence)):
            yield sentence, [name for name in _NAMES.findall(sentence) if has_suffix(name) or "/" in name]


def rules_of(step: Step, among: Sequence[Step], before: Callable[[], Sequence[Step]]) -> list[Act]:
    """Return the acts that note the rules which a person gave for files.

    `among` are the steps that are added before it, and `before` gives those before them.

    What names no file is said of those that were edited in the turn before, if it says that something is to stay.
    """
    names = set[str]()
    for sentence, named in rules_in(step.text) if is_from_user(step) else ():
        is_of_edit = not named and len(step.text) <= SHORT and _KEEPS.search(sentence)
        names.update(_edited(step, [*before(), *among]) if is_of_edit else map(_key, named))
    return [Act(RULED + name, NOTED) for name in sorted(names)]


def _key(name: str) -> str:
    last = name.removesuffix("*").rstrip("/").rpartition("/")[2]
    return f"*{last.rpartition('.')[2]}" if "*" in last else last


def _edited(step: Step, before: Sequence[Step]) -> set[str]:
    same = [earlier for earlier in reversed(before) if earlier.session == step.session]
    turn = takewhile(lambda earlier: not is_from_user(earlier), same)
    calls = chain.from_iterable(earlier.tool_calls for earlier in turn if isinstance(earlier, ActionStep))
    found = {"/".join(path.split("/")[-2:]) for path, _ in chain.from_iterable(map(edits_in, calls))}
    return found if len(found) <= MOST else set()


def keys_of(path: str) -> list[str]:
    """Return the keys of the rules that a file may have, those for its folders included.

    >>> [key.removeprefix("rule://") for key in keys_of("/w/api/a.gen.ts")]
    ['api/a.gen.ts', '*ts', 'w', 'api', 'a.gen.ts']
    """
    parts = full_path(path).strip("/").split("/")
    return [RULED + name for name in ("/".join(parts[-2:]), f"*{path.rpartition('.')[2]}", *parts)]


def rule_among(text: str, path: str, of_edit: bool) -> str:
    """Return the sentence of a text that is a rule for a file, or, if it was said of an edit, one that names none."""
    rules = sorted(rules_in(text), key=lambda rule: not rule[1])
    found = (said for said, names in rules if _is_for(names, path) or (of_edit and not names and _KEEPS.search(said)))
    return next(found, "")


def _is_for(names: list[str], path: str) -> bool:
    return any(fnmatch(f"/{full_path(path)}", f"*/{name}{'*' * name.endswith('/')}") for name in names)
