"""The base of every step: its common fields, its rendering as messages, and its copies.

Every step renders itself as chat messages, in one of two forms:

- `"tools"`: assistant `tool_calls`, then one `tool` message a result, as the chat APIs have it;
- `"observation"`: assistant text, then a user message `Observation: ...` or `Error: ...`, for models without tools.

The default style, `"auto"`, takes the form in which the step was given: chat messages come out as they came in, and an
ActionStep made of a raw response, a reasoning or a `tool_name` is sent as text.
"""

from __future__ import annotations

import dataclasses
import json
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar, get_args

from tinymem.errors import FormatError, InputError, StepError, describe_type, safe_repr
from tinymem.steps.checks import Time, check_iterable, check_non_negative_int, to_utc
from tinymem.steps.content import (
    ATOMS,
    NOTHING,
    check_content,
    freeze,
    shorten,
    to_mutable,
)
from tinymem.steps.display import one_line
from tinymem.steps.ids import new_id, utc_now

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "CAME",
    "FORMAT",
    "STEP_TYPES",
    "STYLES",
    "Message",
    "Part",
    "Step",
    "Style",
    "TextChange",
    "are_same",
    "check_steps",
    "check_text",
    "diff_overlay",
    "dump_step",
    "load_step",
]  # fmt: skip

Message: TypeAlias = dict[str, Any]
Style: TypeAlias = Literal["auto", "tools", "observation"]
STYLES: tuple[Style, ...] = get_args(Style)
TextChange: TypeAlias = Callable[[str], str]
StepT = TypeVar("StepT", bound="Step")

CAME = "came"  # in the first layer of an overlay: how far behind the first message each result stands, by calls
FORMAT = 1  # of a step's record
_DEFAULTS = {"metadata": {}, "pinned": False, "is_final": False, "style": "tools"}
REPR_LENGTH = 60  # characters of a text that a step's repr shows
NAMES = ("id", "session", "speaker")  # fields that each passage of the step repeats
LONGEST_NAME = 1_000  # characters of one of them


@dataclass(frozen=True)
class Part:
    """One searchable text of a step.

    Attributes:
        kind: The kind of text, as `"observation"` or `"thought"`.
        text: The text itself, as the message has it, so offsets into it are offsets into the message.
        message: The place of the message among those of the step.
    """

    kind: str
    text: str
    message: int = 0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Step:
    """The common fields of all steps. A step never changes, not even deep inside, and can be a member of sets.

    Attributes:
        id: Unique. A new one sorts by time of creation; a step of chat messages that a memory was given gets one that
            follows from the history up to it (see `tinymem.messages.recognition`).
        timestamp: When it happened: a datetime (kept in UTC; without a time zone it is in UTC), or seconds since 1970.
        session: The conversation or run that it belongs to.
        speaker: The name of who spoke, where roles are not enough.
        step_number: Given by the memory that the step was added to, from 0.
        pinned: A pinned step is never pruned.
        metadata: A mapping of JSON values.
        overlay: Keys and values beyond this rendering of the messages that the step was read from, and the places of
            results that came in another order than their calls, so that they come out as they came in.

    Raises:
        StepError: A field has a value that it cannot have.
    """

    type: ClassVar[str] = ""
    is_sent: ClassVar[bool] = True  # False: it has no messages, and is only recalled
    _saved_as: ClassVar[Mapping[str, str]] = {}  # fields that have other names in a record
    _texts: ClassVar[tuple[str, ...]] = ()  # fields that hold a text or None
    _contents: ClassVar[tuple[str, ...]] = ()  # fields that hold content or None
    id: str = field(default_factory=new_id)
    timestamp: datetime = field(default_factory=utc_now)
    session: str | None = None
    speaker: str | None = None
    step_number: int | None = None
    pinned: bool = False
    metadata: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    overlay: Sequence[Mapping[str, Any]] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not self.id or not isinstance(self.id, str):
            raise StepError(f"id must be a string that is not empty, not {describe_type(self.id)}")
        fields = vars(self)
        for name in (*NAMES, *self._texts):
            if (value := fields[name]) is not None:
                if not isinstance(value, str):
                    check_text(self, self._saved_as.get(name, name), value)
                if len(value) > LONGEST_NAME and name in NAMES:
                    raise StepError(f"{name} has {len(value):,} characters, more than {LONGEST_NAME:,}")
        if not isinstance(self.step_number, (int, NoneType)) or not isinstance(self.pinned, bool):
            raise StepError(
                "step_number must be an int or None, pinned a bool, "
                f"not {safe_repr(self.step_number)} and {safe_repr(self.pinned)}"
            )
        fields["timestamp"] = _in_utc(self.timestamp)
        if self.metadata is not NOTHING or self.overlay:
            if (
                not isinstance(self.metadata, Mapping)
                or not isinstance(self.overlay, (list, tuple))
                or not all(map(_is_layer, self.overlay))
            ):
                raise StepError("metadata must be a mapping, and overlay a list of {'set': mapping, 'drop': list}")
            fields.update(metadata=freeze(self.metadata), overlay=tuple(map(freeze, self.overlay)))
        for name in self._contents:
            if (value := fields[name]) is not None and type(value) is not str:
                fields[name] = check_content(value, f"{type(self).__name__}.{self._saved_as.get(name, name)}")
        self._check()

    def _check(self) -> None:
        """Raise StepError where a field of this type has a value that it cannot have."""

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and vars(self) == vars(other))

    def __hash__(self) -> int:
        return hash(self.id)  # equal steps have equal ids

    def __repr__(self) -> str:
        number = "" if self.step_number is None else f" #{self.step_number}"
        return f"<{type(self).__name__}{number}: {one_line(self.text[: 4 * REPR_LENGTH])[:REPR_LENGTH]}>"

    def evolve(self: StepT, **changes: Any) -> StepT:
        """Make a copy with some fields changed.

        >>> TaskStep("Ship it").evolve(pinned=True).pinned
        True

        Raises:
            StepError: The step has no such field, or the field cannot have that value.
        """
        unknown = changes.keys() - {f.name for f in dataclasses.fields(self)}
        if unknown:
            raise StepError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        copy = object.__new__(type(self))
        vars(copy).update(vars(self))
        vars(copy).update(changes)
        if not changes.keys() <= {"step_number", "pinned"}:  # the two that a memory sets, on every step
            copy.__post_init__()
        return copy

    def parts(self) -> tuple[Part, ...]:
        """Return the searchable texts, in the order they happened; empty ones are left out."""
        return tuple(part for part in self._parts() if part.text.strip())

    def _parts(self) -> Iterable[Part]:
        raise NotImplementedError

    @property
    def text(self) -> str:
        """All texts as one, for people to read."""
        return "\n".join(part.text for part in self.parts())

    def to_messages(self, summary_mode: bool = False, style: Style = "auto") -> list[Message]:
        """Render the step as chat messages.

        Args:
            summary_mode: Leave out the system prompt, plans and thoughts, as smolagents does when it plans again.
            style: `"tools"`, `"observation"`, or `"auto"`: the form in which the step was given.

        Returns:
            Messages that belong to the caller. A step that was read from messages gives these again, exactly, unless
            another form is asked for.
        """
        chosen = self._form if style == "auto" else style
        if chosen not in ("tools", "observation"):
            raise StepError(f'style must be "auto", "tools" or "observation", not {style!r}')
        messages = self._render(summary_mode, chosen)
        if chosen == "tools" and not summary_mode and self.overlay:
            messages = [apply_overlay(m, layer) for m, layer in zip(messages, self.overlay, strict=True)]
        return messages

    @property
    def _form(self) -> Style:
        """The form in which the step was given."""
        return "tools"

    def _render(self, summary_mode: bool, style: Style) -> list[Message]:
        raise NotImplementedError

    def truncate(self: StepT, max_length: int = 100) -> StepT:
        """Make a copy whose observation has at most `max_length` characters and `...`; other texts stay whole.

        >>> ActionStep(tool_name="ls", observation="abcdef").truncate(3).observation
        'abc...'
        """
        check_non_negative_int("max_length", max_length)
        return self._map_observation(lambda text: text if len(text) <= max_length else f"{text[:max_length]}...")

    def truncate_observation(self: StepT, max_length: int = 100) -> StepT:
        """Do the same as `truncate`."""
        return self.truncate(max_length)

    def _map_observation(self, change: TextChange) -> Self:
        return self

    def shortened(self: StepT, max_length: int) -> StepT:
        """Make a copy in which no text has over `max_length` characters: head and tail stay, with a mark between."""
        return self._map_text(lambda text: shorten(text, max_length))

    def with_note(self: StepT, note: str) -> StepT:
        """Return a copy with a line of its own behind the first text that is not empty."""
        lines = [f"\n{note}"]
        return self._map_text(lambda text: text + lines.pop() if lines and text.strip() else text)

    def _map_text(self, change: TextChange) -> Self:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the step as JSON-ready values: `format`, `type`, and every field that is not at its default."""
        record: dict[str, Any] = {"format": FORMAT, "type": self.type}
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if value is not None and value != () and value != _DEFAULTS.get(f.name):
                record[self._saved_as.get(f.name, f.name)] = _plain(value)
        return record

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> Step:
        """Read the step that `to_dict` wrote.

        Raises:
            FormatError: The record is of a newer format.
            StepError: The record is no step; the message names the field.
        """
        if not isinstance(record, Mapping):
            raise StepError(f"a step's record must be a mapping, not {type(record).__name__}")
        fields = dict(record)
        version = fields.pop("format", None)
        if version != FORMAT:
            raise FormatError(
                f"format {safe_repr(version)} is not one that this version reads ({FORMAT}): upgrade tinymem"
            )
        kind = fields.pop("type", None)
        cls = STEP_TYPES.get(kind) if isinstance(kind, str) else None
        if cls is None:
            raise StepError(
                f"type {safe_repr(kind)} is not one of {', '.join(STEP_TYPES)}: a newer version wrote it, or an older "
                "one took a class of somebody's own"
            )
        try:
            if "timestamp" in fields:
                fields["timestamp"] = _read_time(fields["timestamp"])
            step = cls._from_fields(fields)
            if step.overlay:
                step.to_messages(style="tools")  # ValueError, if it has another number of messages
            return step
        except StepError:
            raise
        except TypeError as error:  # it names the field
            raise StepError(f"{cls.__name__}: {error}") from error
        except ValueError as error:  # it may quote what is in it
            raise StepError(f"{cls.__name__}: a field has a value that is none ({type(error).__name__})") from error

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Step:
        """Make a step of the fields of a record."""
        return cls(**fields)


def dump_step(step: Step) -> str:
    """Write `step` as one line of JSON; StepError says which value is not JSON.

    It is ASCII, the rest escaped, so that lone surrogates and NUL survive any file or database.
    """
    try:
        return json.dumps(step.to_dict(), separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise StepError(f"{type(step).__name__} {step.id} cannot be saved: {error}") from error


def load_step(line: str) -> Step:
    """Read the step that `dump_step` wrote."""
    try:
        record = json.loads(line)
    except (TypeError, ValueError, RecursionError) as error:
        raise StepError(f"not a step's record: {error}") from error
    return Step.from_dict(record)


# By the names of their types; tinymem.steps.types puts them in, so import Step from there, or from tinymem.
STEP_TYPES: dict[str, type[Step]] = {}


def _plain(value: Any) -> Any:
    """Return the JSON values of a field."""
    if type(value) in ATOMS:
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if dataclasses.is_dataclass(value):
        values = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
        return {name: to_mutable(field) for name, field in values if field is not None}
    return [*map(_plain, value)] if isinstance(value, tuple) else to_mutable(value)


def _read_time(value: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise StepError(f"timestamp must be in ISO 8601, not {describe_type(value)}") from None


def check_steps(name: str, values: Iterable[StepT]) -> list[StepT]:
    """Check steps, from any iterable, and return them as a list."""
    found = list(check_iterable(name, values))
    for step in found:
        if not isinstance(step, Step):
            raise InputError(f"{name} must be a list of steps, and {describe_type(step)} is in it")
    return found


def are_same(steps: Sequence[Step], others: Sequence[Step]) -> bool:
    """Return whether these are the very same steps, in order: objects, since a shortened step has the original's id."""
    return len(steps) == len(others) and all(map(operator.is_, steps, others))


def check_text(holder: object, name: str, value: object) -> None:
    """Raise StepError unless the `value` of this field is a string."""
    if not isinstance(value, str):
        raise StepError(f"{type(holder).__name__}.{name} must be a string or None, not {describe_type(value)}")


def _in_utc(when: Time) -> datetime:
    if isinstance(when, datetime) and when.tzinfo is timezone.utc:
        return when
    moment = to_utc("timestamp", when, StepError)
    if moment is None:
        raise StepError("timestamp must be a datetime or seconds since 1970, not None")
    try:
        return moment.astimezone(timezone.utc)
    except OverflowError as error:
        raise StepError(f"timestamp must be in the years 1 to 9999 of UTC, not {when!r}") from error


def _is_layer(layer: object) -> bool:
    """Return True if `layer` can be laid over a message."""
    return (
        isinstance(layer, Mapping)
        and isinstance(layer.get("set", {}), Mapping)
        and isinstance(layer.get("drop", ()), (list, tuple))
        and isinstance(layer.get(CAME, ()), (list, tuple))
        and all(type(place) is int for place in layer.get(CAME, ()))
    )


def apply_overlay(message: Message, layer: Mapping[str, Any]) -> Message:
    """Lay `layer` over `message`: put in the keys that it sets, take out those that it drops."""
    merged = {**message, **to_mutable(layer.get("set", {}))}
    return {key: value for key, value in merged.items() if key not in layer.get("drop", ())}


def diff_overlay(rendered: Message, original: Mapping[str, Any]) -> dict[str, Any]:
    """Return the layer that turns `rendered` into `original`; empty when they are equal."""
    differs = {
        k: v for k, v in original.items() if k not in rendered or rendered[k] != v or type(rendered[k]) is not type(v)
    }
    dropped = [key for key in rendered if key not in original]
    return ({"set": differs} if differs else {}) | ({"drop": dropped} if dropped else {})
