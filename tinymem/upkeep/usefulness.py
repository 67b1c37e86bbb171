"""The use of what a memory holds, reckoned from the words alone: no model, no question to answer."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Ids, Vectors
from tinymem.recall.passages import is_question
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep

__all__ = ["usefulness"]

COMMON = 10  # words of no weight that every group is taken to have as well
QUESTION = 0.5  # what a group that ends in a question counts,
ASSISTANT = 0.1  # and what an assistant said without calling a tool
SAMPLE = 128  # distinct words of a group that are remembered: 0.5 KB, as 32-bit numbers
SLOTS = 1 << 22  # of the table in which groups are counted by word
DIGITS = 6  # to which figures are rounded: what differs by less is equal, on every machine

_WORD = re.compile(r"[^\W\u3040-\u9fff]+|[\u3040-\u9fff]")  # Chinese and Japanese have no spaces: a word a character


def usefulness(said: Iterable[Sequence[Step]]) -> list[float]:
    """Reckon how useful each group of steps is, 0 or more; the groups come in the order in which they were added.

    It is how rare the words of a group are: where n of all N groups have a word, it weighs `log(1 + N / n) / sqrt(n)`,
    and the weights of a group's distinct words are summed and divided by their number and 10 more. So a long text is no
    more useful for being long, a short one needs rare words, and a greeting has none. Then:

    - a group that ends in a question counts half,
    - what an assistant said without calling a tool counts a tenth: it was made of what others said, and can be again,
    - what the same speaker said again later, word for word, counts 0; the newest counts as if it had been said once.

    The groups are read once and not held; each leaves up to 128 of its words, the ones with the lowest hashes, which
    are a fair sample (Cohen and Kaplan, Summarizing data using bottom-k sketches, 2007). So 100,000 short ones take six
    seconds or so, and 60 MB at most. `log(1 + N / n)` is inverse document frequency (Spärck Jones 1972); the root is
    between counting a word that n groups have in full for each of them, and as lost with none but the last. What the
    figures are chosen by, and what they are worth: benchmarks/README.md, Retention.

    >>> from tinymem import MessageStep
    >>> [low, high] = usefulness([[MessageStep("user", "Hi there!")], [MessageStep("user", "Gate B42, seat 17C")]])
    >>> low < high
    True
    """
    having = np.zeros(SLOTS, np.int32)
    samples: list[npt.NDArray[np.int32]] = []
    shares: list[float] = []
    newest: dict[bytes, int] = {}  # where what was said, by its digest, was said last
    for at, group in enumerate(said):
        text = "\n".join(step.text for step in group)
        words = _words(text)
        key = _digest(group, text)
        if key in newest:
            shares[newest[key]] = 0.0
        else:
            having[words] += 1
        newest[key] = at
        samples.append(words[:SAMPLE].astype(np.int32))
        shares.append(_weight(group, text) * len(words) / (len(words) + COMMON))
    rarity = _rarity(len(newest))
    means = (float(rarity[having[words]].mean()) if len(words) else 0.0 for words in samples)
    return [round(share * mean, DIGITS) for share, mean in zip(shares, means, strict=True)]


def _words(text: str) -> Ids:
    """The distinct words of `text` as slots of the table, ascending, which is in no order that words have."""
    found = set(_WORD.findall(text.lower()))
    codes = (zlib.crc32(word.encode("utf-8", "replace")) % SLOTS for word in found)
    return np.unique(np.fromiter(codes, np.int64, len(found)))


def _digest(group: Sequence[Step], text: str) -> bytes:
    """The same for what the same speaker said word for word."""
    speakers = [(step.type, step.speaker, step.role if isinstance(step, MessageStep) else "") for step in group]
    return blake2b(f"{speakers}\n{text}".encode("utf-8", "replace"), digest_size=16).digest()


def _weight(group: Sequence[Step], text: str) -> float:
    """The weight of the group for who said it, and how."""
    (first, *more) = group
    by_assistant = not more and isinstance(first, MessageStep) and first.role == "assistant"
    return (ASSISTANT if by_assistant else 1.0) * (QUESTION if is_question(text) else 1.0)


def _rarity(total: int) -> Vectors:
    """The weight of a word, by how many of `total` groups have it: `(total + 1,)`."""
    having = np.maximum(np.arange(total + 1), 1)
    weights: Vectors = (np.log1p(total / having) / np.sqrt(having)).astype(np.float32)
    return weights
