"""What every step is: its common fields, how it renders itself, and how it is copied.

Every step renders itself as chat messages in one of two styles:

- `"tools"`: assistant `tool_calls`, then one `tool` message a result, as the chat APIs have it;
- `"observation"`: assistant text, then a user message `Observation: ...` or `Error: ...`, for models without tools.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from tinymem.content import Content, as_parts, frozen, is_empty, shorten
from tinymem.errors import StepError
from tinymem.ids import new_id, utc_now
from tinymem.quiet import kind_of, shown

__all__ = ["Message", "Part", "Step", "Style", "TextChange", "check_texts", "joined", "labelled", "overlay_of"]

Message: TypeAlias = dict[str, Any]
Style: TypeAlias = Literal["tools", "observation"]
TextChange: TypeAlias = Callable[[str], str]
StepT = TypeVar("StepT", bound="Step")

LONGEST_NAME = 1_000  # characters of an id, a session, a speaker: each passage of the step is told with them


@dataclass(frozen=True)
class Part:
    """One searchable text of a step: `kind` says what it is, `message` which of the step's messages holds it.

    `text` is that message's own text, so offsets into it are offsets into what was said.
    """

    kind: str
    text: str
    message: int = 0


@dataclass(frozen=True, kw_only=True)
class Step:
    """What all steps have in common.

    `id` sorts by time of creation. `timestamp` is when it happened, aware (kept in UTC). `speaker` is the name of who
    spoke, where roles are not enough. `number` is given by the memory that the step was added to. `pinned` steps are
    never pruned. `metadata` must be JSON. `overlay` holds what the messages it was read from had beyond this
    rendering, so that they come out as they came in.
    """

    type: ClassVar[str] = ""
    id: str = field(default_factory=new_id)
    timestamp: datetime = field(default_factory=utc_now)
    session: str | None = None
    speaker: str | None = None
    number: int | None = None
    pinned: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    overlay: Sequence[Mapping[str, Any]] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.timestamp, datetime) or self.timestamp.tzinfo is None:
            raise StepError(f"timestamp must be an aware datetime (with a time zone), not {shown(self.timestamp)}")
        if not self.id or not isinstance(self.id, str):
            raise StepError(f"id must be a string that is not empty, not {shown(self.id)}")
        check_texts(self, "session", "speaker")
        for name in ("id", "session", "speaker"):
            if len(getattr(self, name) or "") > LONGEST_NAME:
                raise StepError(f"{name} has {len(getattr(self, name)):,} characters, more than {LONGEST_NAME:,}")
        if not isinstance(self.number, (int, type(None))) or not isinstance(self.pinned, bool):
            raise StepError(
                f"number must be an int or None, pinned a bool, not {shown(self.number)} and {shown(self.pinned)}"
            )
        if not isinstance(self.metadata, Mapping) or not all(map(_is_layer, self.overlay)):
            raise StepError("metadata must be a mapping, and overlay a list of mappings {'set': mapping, 'drop': list}")
        self._set(
            timestamp=_in_utc(self.timestamp),
            metadata=frozen(self.metadata),
            overlay=tuple(frozen(layer) for layer in self.overlay),
        )

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def evolve(self: StepT, **changes: Any) -> StepT:
        """A copy with these fields changed.

        >>> TaskStep("Ship it").evolve(pinned=True).pinned
        True
        """
        names = {f.name for f in dataclasses.fields(self)}
        if unknown := set(changes) - names:
            raise StepError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        copy = object.__new__(type(self))
        copy._set(**{name: changes.get(name, getattr(self, name)) for name in names})
        if not changes.keys() <= {"number", "pinned"}:  # the two that a memory sets, on every step
            copy.__post_init__()
        return copy

    def parts(self) -> tuple[Part, ...]:
        """The searchable texts, in the order they happened; empty ones left out."""
        return tuple(part for part in self._parts() if part.text.strip())

    def _parts(self) -> Iterable[Part]:
        raise NotImplementedError

    @property
    def text(self) -> str:
        """All texts as one, for people to read."""
        return "\n".join(part.text for part in self.parts())

    def to_messages(self, summary_mode: bool = False, style: Style = "tools") -> list[Message]:
        """The step as chat messages.

        `summary_mode` leaves out the system prompt, plans and thoughts, as smolagents does when it plans anew.
        In style `"tools"`, messages that a step was read from come back exactly.
        """
        if style not in ("tools", "observation"):
            raise StepError(f'style must be "tools" or "observation", not {style!r}')
        messages = self._render(summary_mode, style)
        if style == "tools" and not summary_mode and self.overlay:
            messages = [apply_overlay(m, layer) for m, layer in zip(messages, self.overlay, strict=True)]
        return messages

    def _render(self, summary_mode: bool, style: Style) -> list[Message]:
        raise NotImplementedError

    def truncate(self: StepT, max_length: int) -> StepT:
        """A copy in which no text has over `max_length` characters; head and tail stay, with a mark between."""
        if max_length < 0:
            raise StepError(f"max_length must be 0 or more, not {max_length}")
        return self._map_text(lambda text: shorten(text, max_length))

    def _map_text(self: StepT, change: TextChange) -> StepT:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The step as JSON-ready values, with a format version. See `tinymem.serialization`."""
        from tinymem.serialization import step_to_dict

        return step_to_dict(self)

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> Step:
        """The step that `to_dict` wrote; StepError names the field that is wrong."""
        from tinymem.serialization import step_from_dict

        return step_from_dict(record)


def check_texts(holder: object, *names: str) -> None:
    """StepError unless these fields are strings or None."""
    for name in names:
        value = getattr(holder, name)
        if value is not None and not isinstance(value, str):
            raise StepError(f"{type(holder).__name__}.{name} must be a string or None, not {kind_of(value)}")


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(timezone.utc)
    except OverflowError as error:
        raise StepError(f"timestamp must be in the years 1 to 9999 of UTC, not {moment!r}") from error


def _is_layer(layer: object) -> bool:
    """Whether it can be laid over a message."""
    return (
        isinstance(layer, Mapping)
        and isinstance(layer.get("set", {}), Mapping)
        and isinstance(layer.get("drop", ()), (list, tuple))
    )


def joined(first: Content | None, *more: Content) -> Content | None:
    """Contents one below the other: strings as lines, or as a list of parts once one of them is that."""
    for second in more:
        if first is None or is_empty(first):
            first = second
        elif isinstance(first, str) and isinstance(second, str):
            first = f"{first}\n{second}"
        else:
            first = [*as_parts(first), *as_parts(second)]
    return first


def labelled(label: str, content: Content | None) -> Content:
    """`content` behind `label` and a colon."""
    if content is None or isinstance(content, str):
        return f"{label}: {content or ''}"
    return [*as_parts(f"{label}:"), *content]


def apply_overlay(message: Message, layer: Mapping[str, Any]) -> Message:
    """`message` with what `layer` sets put in and what it drops taken out."""
    merged = {**message, **frozen(layer.get("set", {}))}
    return {key: value for key, value in merged.items() if key not in layer.get("drop", ())}


def overlay_of(rendered: Message, original: Mapping[str, Any]) -> dict[str, Any]:
    """The layer that turns `rendered` into `original`; empty when they are equal."""
    differs = {
        k: v for k, v in original.items() if k not in rendered or rendered[k] != v or type(rendered[k]) is not type(v)
    }
    dropped = [key for key in rendered if key not in original]
    return ({"set": differs} if differs else {}) | ({"drop": dropped} if dropped else {})
