"""Repetitions: of passages that say the same, the best is enough.

Agents list the same folder and open the same file again and again; the tokens of a repetition are better spent. The
wording counts, not the meaning: two lists that differ in their numbers are close in meaning, and both are needed.
Wordings are compared as sets of shingles, three words each (Broder, On the resemblance and containment of documents,
1997): their resemblance is the Jaccard index. Short ones are the same where their words are.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property

from tinymem.stores.words import CJK, has_cjk

__all__ = ["DIVERSITY", "SHORT", "Utterance", "wording"]

DIVERSITY = 0.1  # a passage repeats another where their resemblance is 1 - DIVERSITY or more
SHORT = 80  # characters below which a passage repeats only what has the same words
QUOTES = "\"'“”‘’«»„"
ENDS = f"{QUOTES}.,;:!。、"  # of a word, which mean nothing; a question mark does
_PUNCTUATION = re.compile(rf"[{ENDS}]+(?=\s|$)|(?<!\S)[{QUOTES}]+")
_WORD = re.compile(r"\w+|[^\w\s]")
_CJK_WORD = re.compile(rf"[{CJK}]{{1,2}}|[^\W{CJK}]+|[^\w\s]")  # no spaces say where words end: two letters are one


def wording(text: str) -> str:
    """Return the words of a text, whatever their case, without the punctuation around them.

    >>> [wording(text) for text in ("OK, thanks!", "ok  thanks", "Ok?", "It is 3.14.")]
    ['ok thanks', 'ok thanks', 'ok?', 'it is 3.14']
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_PUNCTUATION.sub("", folded).split()) or folded.strip()


@dataclass(frozen=True)
class Utterance:
    """A text, and who said it, as what."""

    text: str
    by: str = ""

    @property
    def saying(self) -> tuple[str, str]:
        """The speaker, and the `wording` of a short text: the same wherever it is said again."""
        return self.by, wording(self.text) if len(self.text) < SHORT else self.text

    @cached_property
    def shingles(self) -> frozenset[int]:
        """The hashes of its shingles, with who said it before them; a short text is one."""
        if len(self.text) < SHORT:
            return frozenset([hash(self.saying)])
        words = [self.by, *(_CJK_WORD if has_cjk(self.text) else _WORD).findall(self.text.lower())]
        return frozenset(map(hash, zip(words, words[1:], words[2:], strict=False)))
