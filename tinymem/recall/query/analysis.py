"""The query, analysed once: its text, its vectors, and the dates and identifiers in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import get_close_matches

import numpy as np

from tinymem.embedders.batches import to_unit
from tinymem.errors import EmbedderError, TinymemError, safe_summary
from tinymem.protocols import Embedder, Vectors
from tinymem.recall.passages import WHOLE, cut
from tinymem.recall.query.dates import MONTHS, WEEKDAYS, Span, spans
from tinymem.recall.query.identifiers import NONE, Codes, codes_of, identifiers, labels, named
from tinymem.recall.query.words import words_of
from tinymem.steps.content import clean
from tinymem.stores.words import CJK, blank_cjk, has_cjk

__all__ = ["Query", "analyse", "embed_texts", "find_names", "names_inside", "spelled_alike", "topic_of"]

LINES = 3  # line breaks from which on a text is no plain question
LONGEST = 100_000  # characters of a query that are read, from its end
MOST_SPEAKERS = 100  # among whose names one that is spelled otherwise is looked for,
LONG = 5  # letters from which on it is,
ALIKE = 0.7  # and the share of its letters that are the same, in this order
MAX_VECTORS = 4  # passages of a long query that are embedded, from its end: the newest counts most


# Words that make a text a question, or hold it together: its answer has others, and they blur a short embedding.
ASKING = frozenset(
    """
    what when where who whom whose which why how did do does is are was were has have had will would can could should
    the a an of in on at to for and or any many much long often
    """.split()  # noqa: SIM905 (a list of strings reads worse)
)
_PIECE = re.compile(r"[\w'’]+|[^\w\s]+|\s+")
_WORD = re.compile(r"\w")
_NAME = re.compile(r"\w{3,}")
_LONG_NAME = re.compile(rf"\w{{{LONG},}}")
_UNSPACED = re.compile(rf"[{CJK}]{{2,}}")
_OWN = re.compile(r"['’]s?$")
_ENGLISH = re.compile(r"\b(?:what|when|where|who|whom|whose|which|why|how|did|does|the)\b", re.IGNORECASE)
# Of what holds now, but not "Now run the tests.", "from now on" and "from earliest to latest"
_OF_NOW = re.compile(
    r"(?<=\w )now\b(?! on\b)|\b(?:current(?:ly)?|nowadays|today|(?<!to )(?:latest|newest)|as of|"
    r"at (?:the moment|present)|aktuell\w*|derzeit\w*|jetzt|heute|actuel\w*|maintenant|aujourd.hui|actualmente|ahora|"
    r"hoy|attual\w*|adesso|oggi)\b",
    re.IGNORECASE,
)
_CAPITALISED = re.compile(r"(?<!^)(?<![.?!:\n\"“] )\b[A-Z][^\W\d_]{2,}")  # but for a sentence's first word


def topic_of(question: str, speakers: Collection[str] = ()) -> str:
    """Return what a question is about: the question without question words, and without names of `speakers`.

    Names pull up greetings, and who is asked about is looked for by speaker. A name counts where it is capitalised.

    >>> topic_of("What did Caroline's sister paint in May?", ["Caroline"])
    'sister paint May'
    >>> topic_of("王丽的姐姐画了什么？", ["王丽"])
    '的姐姐画了什么？'
    """
    text = question
    for name in names_inside(question, "\n".join(speakers)) if has_cjk(text) else ():
        text = text.replace(name, " ")
    pieces = _PIECE.findall(text)
    names = _speaking({_word(piece) for piece in pieces if piece[:1].isupper()} - ASKING, speakers)
    asked = ASKING | names
    kept = [piece for piece in pieces if _word(piece) not in (asked if piece[:1].isupper() else ASKING)]
    topic = " ".join("".join(kept).split()).strip(" ?.,'’")
    return topic if _WORD.search(topic) else question


def find_names(question: str, speakers: Collection[str] = ()) -> tuple[str, ...]:
    """Return the capitalised words of an English question, in small letters, but for months, days and `speakers`.

    In other languages more than names are capitalised, or less.

    >>> find_names("When did Muhammad show Melanie the Eiffel Tower in May?", ["Mohammed Ali"])
    ('melanie', 'eiffel', 'tower')
    """
    if not _ENGLISH.search(question):
        return ()
    words = dict.fromkeys(word.lower() for word in _CAPITALISED.findall(question))
    names = [word for word in words if word not in WEEKDAYS and word[:3] not in MONTHS]
    speaking = _speaking({*names}, speakers)
    return tuple(name for name in names if name not in speaking)


def names_inside(text: str, name: str) -> list[str]:
    """Return the parts of a name that stand in `text` and are written there without spaces around, as in Chinese.

    >>> names_inside("王丽的姐姐画了什么？", "王丽 (Lily)")
    ['王丽']
    """
    return [part for part in _UNSPACED.findall(name) if part in text]


def _speaking(words: Set[str], speakers: Collection[str]) -> Set[str]:
    """Return those of `words` that stand in the name of a speaker; a memory may have many thousands of these."""
    words = {word for word in words if _NAME.fullmatch(word)}
    if not words:
        return words
    names = "\n".join(speakers).lower()
    exact = {word for word in words if word in names and re.search(rf"\b{word}\b", names)}
    return exact | spelled_alike(words - exact, speakers).keys()


def spelled_alike(words: Iterable[str], speakers: Collection[str]) -> dict[str, str]:
    """Return for words, in small letters, the parts of speakers' names that are spelled much like them.

    >>> spelled_alike(["mohammed", "monday"], ["Muhammad Khan"])
    {'mohammed': 'muhammad'}
    """
    if len(speakers) > MOST_SPEAKERS:  # among many names some is always alike
        return {}
    parts, found = {*_LONG_NAME.findall("\n".join(speakers).lower())}, dict[str, str]()
    for word in filter(_LONG_NAME.fullmatch, words):
        near = [part for part in parts if part[0] == word[0]]
        for part in get_close_matches(word, near, 1, ALIKE):
            found[word] = part
    return found


def _word(piece: str) -> str:
    return _OWN.sub("", piece.lower())


@dataclass(frozen=True)
class Query:
    """An analysed query.

    Attributes:
        text: The text.
        vectors: `(m, dimensions)`: of the topic, then of its passages if it is long.
        now: The time when it is asked.
        identifiers: Hashes of the identifiers in a stretch.
        named: Hashes of those of a question that name one thing.
        labels: Those of a question that can only mean one thing, with the words by which a text has them.
        spans: The spans of time that it names, if it is a question.
        names: The names in a question, but for those of speakers; see `find_names`.
        topic: What of the text is compared with passages: a question without question words and names of speakers; of a
            stretch with calls, the words of people and agent and the calls' arguments.
        is_stretch: True for a stretch of the run itself, as the window's newest steps; False for a question.
        embedder: The name of the embedder that made the vectors.
    """

    text: str
    vectors: Vectors
    now: datetime
    identifiers: Codes = field(default_factory=lambda: NONE)
    named: Codes = field(default_factory=lambda: NONE)
    spans: Sequence[Span] = ()
    names: tuple[str, ...] = ()
    topic: str = ""
    is_stretch: bool = False
    embedder: str = "none"
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_of_now(self) -> bool:
        """True for a question that says that it asks for what holds now."""
        return not self.is_stretch and _OF_NOW.search(self.text) is not None


def embed_texts(embedder: Embedder, texts: Sequence[str], asked: bool = False) -> Vectors:
    """Embed and check `texts`, as queries if they are `asked`: `(len(texts), dimensions)`, each of length 1 or 0.

    The journal keeps them in half precision, which holds no component above 65,504. Every failure is an EmbedderError.
    """
    try:
        vectors = np.asarray((embedder.embed_queries if asked else embedder.embed_documents)(texts), np.float64)
    except TinymemError:
        raise
    except Exception as error:
        raise EmbedderError(f"{embedder.name} failed on {len(texts)} texts: {safe_summary(error)}") from error
    wanted = (len(texts), embedder.dimensions)
    if vectors.shape != wanted or not np.isfinite(vectors).all():
        what = "NaN or infinity" if vectors.shape == wanted else f"an array of shape {vectors.shape}, not {wanted},"
        raise EmbedderError(f"{embedder.name} gave {what} for {len(texts)} texts")
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0)
    vectors /= np.where(largest == 0, 1, largest)  # first, or the squares of very large or small ones are lost
    return to_unit(vectors)


def analyse(
    text: str,
    embedder: Embedder | None,
    now: datetime,
    since: float = 0,
    until: float = 0,
    speakers: Collection[str] = (),
    *,
    dimensions: int = 0,
) -> Query:
    """Analyse the last LONGEST characters of a query.

    The memory's steps reach from `since` to `until` (seconds), and are said by `speakers`. Where there is no embedder,
    the vector is zeros of so many `dimensions`, and words alone must do.
    """
    text = clean(text[-LONGEST:])
    words = words_of(text)
    is_stretch = bool(words) or len(text) > WHOLE or text.strip().count("\n") >= LINES
    topic = words or (text if is_stretch else topic_of(text, speakers))
    query = Query(text, np.zeros((1, dimensions), np.float32), now, topic=topic, is_stretch=is_stretch)
    if embedder is not None:
        pieces = cut(text)[-MAX_VECTORS:] if len(text) > WHOLE and not words else ()  # the newest of a long text
        texts = [topic, *(text[start:end] for start, end in pieces)]
        query = replace(query, vectors=embed_texts(embedder, texts, asked=True), embedder=embedder.name)
    found = identifiers(text)
    if is_stretch:
        return replace(query, identifiers=codes_of(found))
    dates, names = spans(blank_cjk(text), now, since, until), find_names(text, speakers)
    return replace(query, named=named(found), labels=labels(found), spans=dates, names=names)
