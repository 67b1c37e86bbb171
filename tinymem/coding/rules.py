"""Rules for files: what a person said of a file, of a folder, or of the edit that was just made."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise, takewhile

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
DEEPEST = 4  # parts of a path
_SENTENCES = re.compile(r"(?<=[.!;])\s+|\n+")
_KEEPS = re.compile(
    r"(?:^|[.,;:!]\s*|\b(?:please|must|should|to)\s+)(?:keep|leave|revert|restore|undo)\b|\b(?:must|should) stay\b",
    re.IGNORECASE,
)
_NAMES = re.compile(r"(?<![\w/:.~-])(?:\*\*/|\./|/)?((?:[\w.@*+-]+/)*[\w.@*+-]*)(?<!\.)")


def rules_in(text: str) -> list[tuple[str, list[str]]]:
    """Return the sentences that say what is to be done or left, each with the files and folders that it names.

    >>> rules_in("Thanks. Please do not edit `generated/`, it is built.")
    [('Please do not edit `generated/`, it is built.', ['generated/'])]
    """
    rules = []
    for sentence in map(str.strip, _SENTENCES.split(text[:LONGEST])):
        if "?" not in sentence and (is_rule(sentence) or _KEEPS.search(sentence)):
            words = (word.rstrip("*") if word.endswith("/*") else word for word in _NAMES.findall(sentence))
            rules.append((sentence, [word for word in words if has_suffix(word) or "/" in word]))
    return rules


def rules_of(step: Step, before: Callable[[], Sequence[Step]]) -> list[Act]:
    """Return the acts that note the rules which a person gave for files; `before` gives the steps before.

    What names no file is said of those that were edited in the turn before, if it says that something is to stay.
    """
    names = set[str]()
    for sentence, named in rules_in(step.text) if is_from_user(step) else ():
        names.update(named or (_edited(before()) if _KEEPS.search(sentence) else ()))
    return [Act(RULED + name, NOTED) for name in sorted(names)]


def _edited(before: Sequence[Step]) -> set[str]:
    turn = takewhile(lambda step: not is_from_user(step), reversed(before))
    calls = (call for step in turn if isinstance(step, ActionStep) for call in step.tool_calls)
    return {"/".join(path.split("/")[-2:]) for call in calls for path, _ in edits_in(call)}


def rule_among(text: str, keys: Collection[str]) -> str:
    """Return the sentence of a text that is a rule with one of these keys, or else one that names no file."""
    rules = sorted(rules_in(text), key=lambda rule: not rule[1])
    return next((said for said, names in rules if not names or any(RULED + name in keys for name in names)), "")


def keys_of(path: str) -> list[str]:
    """Return the keys of the rules that a file may have, those for its folders included.

    >>> [key.removeprefix("rule://") for key in keys_of("/w/api/a.gen.ts")]
    ['a.gen.ts', 'api/a.gen.ts', 'w/api/a.gen.ts', 'w/api/a.gen.ts', 'w/', 'api/', 'w/api/', '*.ts']
    """
    parts = full_path(path).strip("/").split("/")
    names = ["/".join(parts[-count:]) for count in range(1, DEEPEST + 1)]
    names += [f"{part}/" for part in parts[:-1]]
    names += [f"{outer}/{inner}/" for outer, inner in pairwise(parts[:-1])]
    return [RULED + name for name in [*names, f"*.{path.rpartition('.')[2]}"]]
