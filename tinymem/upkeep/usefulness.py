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

COMMON = 10  # words without weight that are added to every group
QUESTION = 0.5  # weight of a group that ends in a question
ASSISTANT = 0.1  # weight of an assistant's words without a tool call
SAMPLE = 128  # distinct words of a group that are remembered: 0.5 KB, as 32-bit numbers
SLOTS = 1 << 22  # size of the table that counts groups by word
DIGITS = 6  # decimals of the result, so that it is equal on every machine

_WORD = re.compile(r"[^\W\u3040-\u9fff]+|[\u3040-\u9fff]")  # Chinese and Japanese have no spaces: a word a character


def usefulness(said: Iterable[Sequence[Step]]) -> list[float]:
    """Reckon how useful each group of steps is, 0 or more; the groups come in the order in which they were added.

    A group is useful if its words are rare: a word that n of all N groups have weighs `log(1 + N / n) / sqrt(n)`, and
    the weights of a group's distinct words are summed and divided by their number plus 10. So a long text is not more
    useful for its length, a short one needs rare words, and a greeting has none. Then:

    - a group that ends in a question counts half,
    - an assistant's words without a tool call count a tenth, since they were made from others' words, and can be again,
    - words that the same speaker repeats later, verbatim, count 0; the newest count as if they were said once.

    The groups are read once and not held; each leaves up to 128 of its words, the ones with the lowest hashes, which
    are a fair sample (Cohen and Kaplan, Summarizing data using bottom-k sketches, 2007). So 100,000 short ones take six
    seconds or so, and 60 MB at most. `log(1 + N / n)` is inverse document frequency (Spärck Jones 1972); the root is
    between counting a word that n groups have in full for each of them, and as lost with none but the last. What the
    figures are chosen by, and what they are worth: benchmarks/tables/retention.md.

    >>> from tinymem import MessageStep
    >>> [low, high] = usefulness([[MessageStep("user", "Hi there!")], [MessageStep("user", "Gate B42, seat 17C")]])
    >>> low < high
    True
    """
    having = np.zeros(SLOTS, np.int32)
    samples: list[npt.NDArray[np.int32]] = []
    shares: list[float] = []
    newest: dict[bytes, int] = {}  # the last place of each text, by its digest
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
    """Return the distinct words of `text` as slots of the table, in ascending order, which is that of their hashes."""
    found = set(_WORD.findall(text.lower()))
    codes = (zlib.crc32(word.encode("utf-8", "replace")) % SLOTS for word in found)
    return np.unique(np.fromiter(codes, np.int64, len(found)))


def _digest(group: Sequence[Step], text: str) -> bytes:
    """Return a digest of a group's speakers and text, which is equal for verbatim repetitions."""
    speakers = [(step.type, step.speaker, step.role if isinstance(step, MessageStep) else "") for step in group]
    return blake2b(f"{speakers}\n{text}".encode("utf-8", "replace"), digest_size=16).digest()


def _weight(group: Sequence[Step], text: str) -> float:
    """Return the weight of a group by its speaker, and by whether it asks."""
    (first, *more) = group
    by_assistant = not more and isinstance(first, MessageStep) and first.role == "assistant"
    return (ASSISTANT if by_assistant else 1.0) * (QUESTION if is_question(text) else 1.0)


def _rarity(total: int) -> Vectors:
    """Return the weights of words, by how many of `total` groups have them: `(total + 1,)`."""
    having = np.maximum(np.arange(total + 1), 1)
    weights: Vectors = (np.log1p(total / having) / np.sqrt(having)).astype(np.float32)
    return weights
