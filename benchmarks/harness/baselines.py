"""Baselines without tinymem: the newest units, BM25 over them or over their passages, or plain dense vectors in Chroma.

They work on units, rendered `[YYYY-MM-DD HH:MM] speaker: text` (no brackets where no time is known) and
taken greedily in the order of their rank, skipping what does not fit any more. A unit that is longer than the whole
budget can therefore never be taken, unless it is cut into passages. Tool calls are left out: only a unit's text earns
anything, so they would cost tokens for nothing (with them, BM25 finds less than half as much in agent runs).
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.harness.data import Claim, Question, Recalled, Unit
from tinymem.messages import TiktokenCounter
from tinymem.protocols import Embedder

__all__ = ["BM25", "Dense", "Passages", "Recency", "WholeUnits", "rendered"]

MAX_TERMS = 64  # of a question, the rarest: an agent's window as a question has hundreds
PASSAGE_TERMS = 128  # the same where passages are searched: more words find more there
PASSAGE = 400  # characters of a passage, about
BEGUN_WORD = re.compile(r"\S*\Z")
SHORTEST = 8  # tokens of a short unit: no more than budget / SHORTEST candidates are of use
STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a about above after again against all also am an and any are as at be because been before being below "
        "between both but by can could d did do does doing don down during each few for from further had has have "
        "having he her here hers him his how i if in into is it its itself just ll m may me might more most my no nor "
        "not now of off on once only or other our ours out over own re s same she should so some such t than that the "
        "their theirs them then there these they this those through to too under until up ve very was we were what "
        "when where which while who whom whose why will with would you your yours ",
    )
)


def spoken(unit: Unit) -> str:
    """`speaker: text`: what is searched."""
    return f"{unit.speaker}: {unit.text}"


def rendered(unit: Unit) -> str:
    """The unit as it stands in the prompt."""
    return f"[{unit.timestamp:%Y-%m-%d %H:%M}] {spoken(unit)}" if unit.timestamp else spoken(unit)


class WholeUnits:
    """The shared part of the baselines: units rendered and counted once, and the filling of a budget."""

    def __init__(self) -> None:
        self._counter = TiktokenCounter()
        self._units: list[Unit] = []
        self._lines: list[str] = []
        self._costs: list[tuple[int, int]] = []  # tokens of a line alone, and with its line break

    def add(self, units: Sequence[Unit]) -> None:
        """Take in the next units."""
        for unit in units:
            line = rendered(unit)
            self._units.append(unit)
            self._lines.append(line)
            self._costs.append((self._counter.count(line), self._counter.count(line + "\n")))

    def rank(self, question: Question, most: int) -> Iterable[int]:
        """Places of units, the best first; more than `most` are of no use."""
        raise NotImplementedError

    def recall(self, question: Question, budget: int) -> Recalled:
        """The best-ranked units that fit."""
        taken, used = [], 0
        for place in self.rank(question, max(100, budget // SHORTEST)):
            alone, with_break = self._costs[place]
            if used + alone <= budget:
                taken.append(place)
                used += with_break
        return self._exact(taken, budget)

    def _exact(self, taken: list[int], budget: int) -> Recalled:
        """`taken` as text; a tokenizer may join what was counted apart, so the whole is counted and cut if need be."""
        while self._counter.count(text := "\n".join(self._lines[place] for place in taken)) > budget:
            taken = taken[:-1]
        return Recalled(text, tuple(Claim(place, 0, len(self._units[place].text)) for place in taken))

    def close(self) -> None:
        """Nothing is held."""


class Recency(WholeUnits):
    """The newest units: what stays in a prompt that is cut from the front."""

    def rank(self, question: Question, most: int) -> Iterable[int]:
        """The newest first."""
        return range(len(self._units) - 1, max(-1, len(self._units) - 1 - most), -1)


class BM25(WholeUnits):
    """Full-text search: SQLite FTS5, porter stemmer, an OR of the question's words without English stop words."""

    def __init__(self, most_terms: int = MAX_TERMS) -> None:
        super().__init__()
        self._most_terms = most_terms
        self._table = sqlite3.connect(":memory:")
        self._table.execute("CREATE VIRTUAL TABLE said USING fts5(text, tokenize = 'porter unicode61')")

    def add(self, units: Sequence[Unit]) -> None:
        """Take in the next units."""
        rows = [(len(self._units) + at, spoken(unit)) for at, unit in enumerate(units)]
        with self._table:
            self._table.executemany("INSERT INTO said(rowid, text) VALUES (?, ?)", rows)
        super().add(units)

    def rank(self, question: Question, most: int) -> Iterable[int]:
        """The highest BM25 first; units that share no word with the question are left out."""
        words = dict.fromkeys(re.findall(r"[^\W_]+", question.text.lower()))
        terms = self._rarest([word for word in words if word not in STOP_WORDS])
        if not terms:
            return []
        query = " OR ".join(f'"{term}"' for term in terms)
        found = self._table.execute("SELECT rowid FROM said WHERE said MATCH ? ORDER BY rank LIMIT ?", (query, most))
        return [place for (place,) in found]

    def _rarest(self, terms: list[str]) -> list[str]:
        if len(terms) <= self._most_terms:
            return terms
        count = "SELECT count(*) FROM said WHERE said MATCH ?"
        counts = {term: self._table.execute(count, (f'"{term}"',)).fetchone()[0] for term in terms}
        return sorted((term for term in terms if counts[term]), key=lambda term: counts[term])[: self._most_terms]

    def close(self) -> None:
        """Drop the table."""
        self._table.close()


class Passages:
    """A baseline over passages of units, so that a long unit need not come back whole or not at all."""

    def __init__(self, baseline: WholeUnits) -> None:
        self._baseline = baseline
        self._units = 0
        self._claims: list[Claim] = []  # a passage each

    def add(self, units: Sequence[Unit]) -> None:
        """Take in the next units."""
        for unit in units:
            places = passages(unit.text)
            self._baseline.add([replace(unit, text=unit.text[start:end]) for start, end in places])
            self._claims += [Claim(self._units, start, end) for start, end in places]
            self._units += 1

    def recall(self, question: Question, budget: int) -> Recalled:
        """The best-ranked passages that fit."""
        found = self._baseline.recall(question, budget)
        return Recalled(found.text, tuple(self._claims[claim.place] for claim in found.claims))

    def close(self) -> None:
        """Close the baseline."""
        self._baseline.close()


def passages(text: str) -> list[tuple[int, int]]:
    """Return where the passages of a text start and end: about equally long, and cut behind white space if possible."""
    count = max(1, round(len(text) / PASSAGE))
    ends = [len(text) * place // count for place in range(1, count)]
    begun = [BEGUN_WORD.search(text, end - PASSAGE // 4, end) for end in ends]
    return list(pairwise([0, *(word.start() for word in begun if word), len(text)]))


class Dense(WholeUnits):
    """Plain Chroma, what most people do today: each unit one vector, the nearest to the question's by cosine."""

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        import chromadb
        from chromadb.config import Settings

        super().__init__()
        self._embedder = embedder
        self._client: Any = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
        self._collection = self._client.create_collection(
            "units", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )

    def add(self, units: Sequence[Unit]) -> None:
        """Take in the next units."""
        texts, step = [spoken(unit) for unit in units], self._client.get_max_batch_size()
        for start in range(0, len(texts), step):
            batch = texts[start : start + step]
            ids = [str(len(self._units) + start + at) for at in range(len(batch))]
            self._collection.add(ids, embeddings=self._embedder.embed_documents(batch), documents=batch)
        super().add(units)

    def rank(self, question: Question, most: int) -> Iterable[int]:
        """The nearest first."""
        vector = self._embedder.embed_queries([question.text])
        found = self._collection.query(query_embeddings=vector, n_results=min(most, len(self._units)), include=[])
        return [int(place) for place in found["ids"][0]]

    def close(self) -> None:
        """Close the database."""
        self._client.close()
