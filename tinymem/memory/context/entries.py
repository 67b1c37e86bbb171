"""Entries of a context: for each message that is sent, where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tinymem.messages.chains import NATIVE
from tinymem.steps.content import thawed
from tinymem.steps.step import Message, Step
from tinymem.window.sending import SentGroup

__all__ = ["Entry", "Kind", "added", "shown"]

Kind: TypeAlias = Literal["message", "placeholder", "moved", "note", "episodes", "scratchpad", "recalled"]


@dataclass(frozen=True)
class Entry:
    """A message of a context, and where it comes from.

    Attributes:
        message: The message itself.
        kind: `"message"`; or what stands in the place of a result that is missing (`"placeholder"`), the images of a
            result, which only a user's message may have (`"moved"`), the note that earlier messages are not shown, or
            the block of `"episodes"`, of the `"scratchpad"`, or of what was `"recalled"`.
        input: The index of the message in the list that `fit` was given; None where it was not in it.
        steps: The steps that say it.
        shortened: True if the message is not whole.
        native: The message's own form at its provider, if it came with one under the key `native`.
    """

    message: Message
    kind: Kind = "message"
    input: int | None = None
    steps: tuple[Step, ...] = ()
    shortened: bool = False
    native: Any = field(default=None, repr=False)


def added(kind: Kind, messages: Iterable[Message], steps: Iterable[Step] = ()) -> list[Entry]:
    """Return the entries of messages that the memory adds."""
    return [Entry(message, kind, None, tuple(steps)) for message in messages]


def shown(
    sent: Iterable[SentGroup],
    inputs: Callable[[Step], Sequence[int]],
    cut: Iterable[str] = (),
    whole: Sequence[SentGroup] = (),
) -> Iterator[Entry]:
    """Yield the entries of groups that are shown.

    Args:
        sent: The groups.
        inputs: Gives the indices of a step's messages in the caller's list.
        cut: Ids of steps that are not whole.
        whole: The groups as they would be sent whole, those that are shown shortened at least.
    """
    originals = {
        (one.group[source[0]].id, source[1]): message
        for one in whole
        for message, source in zip(one.messages, one.sources, strict=True)
        if source is not None
    }
    cut = set(cut)
    for one in sent:
        for message, source in zip(one.messages, one.sources, strict=True):
            own: Message = thawed(message)
            if source is None:
                yield Entry(own, "placeholder" if message["role"] == "tool" else "moved", None, tuple(one.group))
                continue
            step, place = one.group[source[0]], source[1]
            given = inputs(step)
            index = given[place] if place < len(given) else None
            is_cut = step.id in cut and message != originals.get((step.id, place))
            yield Entry(own, "message", index, (step,), is_cut, _native(step, place))


def _native(step: Step, place: int) -> Any:
    layer = step.overlay[place] if place < len(step.overlay) else {}
    return thawed(layer.get("set", {}).get(NATIVE))
