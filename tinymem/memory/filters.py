"""Filters of recall and forgetting, as callers give them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypedDict

from tinymem.archive.archive import LONGEST_LABEL, label_of
from tinymem.errors import InputError, safe_repr
from tinymem.protocols import Journal
from tinymem.steps.checks import Time, check_choice, check_str, to_utc
from tinymem.steps.content import clean
from tinymem.steps.redaction import Redact, redact_json
from tinymem.steps.types import STEP_TYPES
from tinymem.stores.filter import EVERYTHING, Beginning, Filter

__all__ = ["Filters", "ForgetLimits", "HistoryLimits", "NamespaceLimits", "StepLimits", "check_names"]


class StepLimits(TypedDict, total=False):
    """Limits of the steps that `recall`, `explain`, `fit` and `forget` are about, by name: None is no limit.

    Attributes:
        since: Only steps of this moment or later.
        until: Only steps of this moment or earlier.
        speaker: Only steps said by this speaker.
        tool: Only steps that call this tool.
        type: Only steps of this type, as in `"action"`.
        where: Only steps with these values in their metadata, as `{"user": "ann"}`.
    """

    since: Time | None
    until: Time | None
    speaker: str | None
    tool: str | None
    type: str | None
    where: Mapping[str, Any] | None


class NamespaceLimits(StepLimits, total=False):
    """The limits of `recall` and `explain`.

    Attributes:
        session: Only steps of this session.
    """

    session: str | None


class HistoryLimits(StepLimits, total=False):
    """The limits of what `fit` recalls.

    Attributes:
        sessions: Only steps of this session.
    """

    sessions: str | None


class ForgetLimits(NamespaceLimits, total=False):
    """The limits of `forget`.

    Attributes:
        before: Only steps before this moment.
    """

    before: Time | None


def check_names(kind: str, given: Collection[str], known: type) -> None:
    """Check that a TypedDict has the names of what was given: TypeError, as Python's own of a named argument."""
    names = known.__annotations__
    if unknown := [name for name in given if name not in names]:
        raise TypeError(f"there is no {kind} {unknown[0]!r}: give {', '.join(names)}")


class Filters:
    """Checks the filters of recall and forgetting, and gives names and metadata the form that they are kept in.

    Args:
        journal: Finds the steps that have the metadata.
        redact: The redaction of the memory.
    """

    def __init__(self, journal: Journal, redact: Redact | None) -> None:
        self._journal, self._redact = journal, redact

    def name(self, name: str, value: str) -> str:
        """Check a name, as that of a session, and redact it as it was when it was written down."""
        text = check_str(name, value)
        text = self._redact(text) if self._redact else text
        return Beginning(text) if isinstance(value, Beginning) else text

    def make(self, limits: Mapping[str, Any], known: type[StepLimits], as_of: Time | None = None) -> Filter:
        """Make a Filter of limits, which have names that are `known`; `sessions` is another name of `session`.

        A moment `as_of` which something is asked is the last one, as `until`.

        Raises:
            InputError: A filter cannot be applied.
            TypeError: There is no such limit.
        """
        check_names("limit", limits, known)
        given = {name: value for name, value in limits.items() if value is not None}
        where = given.pop("where", None)
        if as_of is not None:
            if "until" in given:
                raise InputError("give until or as_of, not both")
            given["until"] = to_utc("as_of", as_of)
        if "type" in given:
            check_choice("type", given["type"], *STEP_TYPES)
        for name in [name for name in ("session", "sessions", "speaker", "tool") if name in given]:
            given["session" if name == "sessions" else name] = self.name(name, given.pop(name))
        if where is not None and (labels := tuple(self._labels(where))):
            given |= {"labels": labels, "numbers": tuple(self._journal.matching(Filter(labels=labels)))}
        return Filter(**given) if given else EVERYTHING

    def _labels(self, where: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return metadata as the journal has it."""
        if not isinstance(where, Mapping):
            raise InputError(f"where must be a mapping of metadata, as in {{'user': 'ann'}}, not {safe_repr(where)}")
        labels = []
        for name, value in (redact_json(dict(where), self._redact) if self._redact else where).items():
            label = label_of(value)
            if not isinstance(name, str) or label is None:
                raise InputError(
                    f"where must have texts of up to {LONGEST_LABEL:,} characters, numbers or booleans by name, not "
                    f"{safe_repr(name)}: {safe_repr(value)}"
                )
            labels.append((clean(name), label))
        return labels
