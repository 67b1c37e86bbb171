"""Near-duplicates: of passages that say the same, the best is enough.

Agents list the same folder and open the same file again and again; the tokens of a repetition are better spent. What
counts is the wording, not the meaning: two lists that differ in their numbers are close in meaning, and both are
needed. Wordings are compared as sets of shingles, three words each (Broder, On the resemblance and containment of
documents, 1997): their resemblance is the Jaccard index.
"""

from __future__ import annotations

import re
from collections import Counter

from tinymem.errors import InputError

__all__ = ["DIVERSITY", "Repetitions"]

DIVERSITY = 0.1  # a passage repeats another where their resemblance is 1 - DIVERSITY or more
SHORT = 80  # characters below which a passage repeats nothing: it costs little, and when it was said says something
_WORD = re.compile(r"\w+|[^\w\s]")

Shingle = tuple[str, ...]


class Repetitions:
    """Which passages repeat one that was taken before. With a `diversity` of 0 none does, with 1 all do."""

    def __init__(self, diversity: float = DIVERSITY) -> None:
        if not 0 <= diversity <= 1:
            raise InputError(f"diversity must be from 0 to 1, not {diversity!r}")
        self._least = 1 - diversity
        self._sizes: list[int] = []  # of what was taken, in shingles
        self._holders: dict[Shingle, list[int]] = {}

    def take(self, said: str, by: str = "") -> bool:
        """Note what was `said` by somebody, unless it repeats something: False then."""
        if self._least == 1 or len(said) < SHORT:
            return True
        words = [by, *_WORD.findall(said.lower())]
        shingles = {*zip(words, words[1:], words[2:], strict=False)}
        known = shingles & self._holders.keys()
        shared = Counter(taken for shingle in known for taken in self._holders[shingle])
        for taken, count in shared.items():
            if count >= self._least * (len(shingles) + self._sizes[taken] - count):
                return False
        for shingle in shingles:
            self._holders.setdefault(shingle, []).append(len(self._sizes))
        self._sizes.append(len(shingles))
        return True
