"""Stand-ins: steps that a strategy puts in the place of others, and the ids of these others.

A stand-in has the id and the number of the last step that it stands for. A SummaryStep names all of them in its field
`covers`; a step of any other type, such as `TaskStep("[Summary] ...")`, in `metadata["covers"]`. A stand-in is never
the current task or the system prompt, whatever its type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tinymem.steps.step import Step, StepT
from tinymem.steps.types import MessageStep, SummaryStep, TaskStep

__all__ = ["COVERS", "REVISION", "SEEN", "covered_ids", "covers_of", "find_stand_ins", "is_from_user", "is_request",
           "is_stand_in", "marks_of", "newest_of", "newest_request", "rank", "sources_of"]  # fmt: skip

COVERS = "covers"
SEEN = "tinymem_seen"  # ids of other steps that the strategy was given: the stand-in may quote them too
REVISION = "tinymem_revision"  # how often a step was changed without getting shorter


def covers_of(step: Step) -> tuple[str, ...]:
    """Return the ids of the steps that `step` stands for, oldest first; none for a step that stands for itself."""
    if isinstance(step, SummaryStep):
        return tuple(step.covers)
    ids = _ids(step.metadata.get(COVERS))
    return ids if step.id in ids else ()  # somebody's own metadata may be called so


def covered_ids(steps: Iterable[Step]) -> dict[str, None]:
    """Return the ids of steps, and of all that they stand for, each once and in order."""
    found: dict[str, None] = {}
    for step in steps:
        found |= dict.fromkeys((*covers_of(step), step.id))
    return found


def find_stand_ins(steps: Iterable[Step]) -> list[Step]:
    """Return those of `steps` that stand for others, or for more than themselves."""
    return [step for step in steps if covers_of(step)]


def is_stand_in(step: Step) -> bool:
    """Return True if a strategy put `step` in the place of others."""
    return step.id in covers_of(step)


def sources_of(step: Step) -> tuple[str, ...]:
    """Return the ids of all steps that a stand-in may quote: those it covers, and others that its maker saw."""
    covers = covers_of(step)
    return (*covers, *_ids(step.metadata.get(SEEN))) if covers else ()


def marks_of(step: Step) -> dict[str, Any]:
    """Return the metadata that a strategy gave `step`: ids and a number, never text that somebody wrote."""
    keys: tuple[str, ...] = (REVISION,) if _revision(step) else ()
    if is_stand_in(step):
        keys = COVERS, SEEN, REVISION
    return {key: step.metadata[key] for key in keys if key in step.metadata}


def rank(step: Step) -> tuple[int, int, int]:
    """Return the distance of a step from the one added under its id: of two versions, the lower is closer to it."""
    return len(covers_of(step)), _revision(step), -len(step.text)


def newest_of(steps: Iterable[Step], kind: type[StepT]) -> StepT | None:
    """Return the newest step of a type that stands for itself, or None.

    >>> from tinymem import TaskStep
    >>> newest_of([TaskStep("Ship it"), TaskStep("[Summary] ...", id="a", metadata={"covers": ["a"]})], TaskStep).task
    'Ship it'
    """
    found = [step for step in steps if isinstance(step, kind) and not is_stand_in(step)]
    return found[-1] if found else None


def _revision(step: Step) -> int:
    value = step.metadata.get(REVISION)
    return value if type(value) is int else 0


def _ids(value: object) -> tuple[str, ...]:
    """Return a list of ids as a tuple; () for anything else."""
    return tuple(value) if isinstance(value, (list, tuple)) and all(isinstance(id, str) for id in value) else ()


def is_request(step: Step) -> bool:
    """Return True for what a user said."""
    return isinstance(step, MessageStep) and step.role == "user" and bool(step.content)


def is_from_user(step: Step) -> bool:
    """Return True for what a user said, and for a task."""
    return is_request(step) or isinstance(step, TaskStep)


def newest_request(steps: Sequence[Step]) -> Step | None:
    """Return what a user said last, where something was done for it and no task came after it; or None.

    >>> newest_request([MessageStep("user", "Ship it"), MessageStep("assistant", "Yes")]).content
    'Ship it'
    >>> newest_request([MessageStep("user", "Hello"), TaskStep("Ship it")])
    """
    for step in reversed(steps):
        if is_from_user(step) and not is_stand_in(step):
            return step if is_request(step) and step is not steps[-1] else None
    return None
