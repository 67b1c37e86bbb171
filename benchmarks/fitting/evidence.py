"""Training data of the fusion weights: the features of every candidate, and the evidence among them.

Features come from the library (`memory.long_term.score`), exactly as recall computes them. What a budget would bring
back is simulated from them, which takes a millisecond where asking the memory takes twenty: passages cost a token for
about four characters and a few for their label, near-duplicates stay in. Only `benchmarks.recall` gives real figures.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.harness.data import Haystack, Query, Question, read_haystacks, sha256
from benchmarks.harness.methods import NO_UNIT, Setup, Tinymem
from benchmarks.harness.scoring import SLICE, WHOLE
from tinymem.protocols import Ids, Vectors
from tinymem.recall import Recall
from tinymem.recall.features import NAMES
from tinymem.recall.fusion import KIND_NAMES, Fusion, ScoredCandidates
from tinymem.recall.relevance import PRICE, Signals
from tinymem.recall.search import Search
from tinymem.recall.selection.diversity import DIVERSITY
from tinymem.recall.selection.limits import Limits
from tinymem.recall.selection.packing import FENCE, MISSES, SMALLEST, pack
from tinymem.recall.snapshot import SAID

__all__ = [
    "BUDGETS",
    "FOLDS",
    "HEADER",
    "LABEL",
    "MEASURED",
    "UNFITTED",
    "Asked",
    "Candidates",
    "DataFile",
    "collect",
    "filled",
    "mean_recall",
    "report",
    "share",
    "simulate",
]

BUDGETS = (512, 1024, 2048, 4096)
FOLDS = 2  # of the cross-validation: by haystack, so that no haystack has a say in weights that it is measured with
MEASURED = 1  # the fold that is held out where a single one is
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # when a query without a time is asked: "last week" is then no hint
LABEL, HEADER = 6, 8  # tokens, about: of what stands before a passage, and of a day's header
UNFITTED = Fusion(  # cosine plus BM25, each as a share of its best
    np.array([[name in ("cosine", "bm25") for name in NAMES]] * len(KIND_NAMES), np.float32),
    np.zeros(len(KIND_NAMES), np.float32),
)


@dataclass(frozen=True)
class Asked:
    """A query that was asked: its `n` candidates, and what of them is evidence.

    `features` is `(n, len(NAMES))` float32. The rest are `(n,)`: `kinds` say which row of weights each has, `evidence`,
    lengths in characters, days (to tell which share a header), and the place of the unit that a passage stands in, or
    -1.
    `gold` has the length of each gold unit by its place, and is empty where any passage with the needle will do. The
    `signals` tell whether the memory knows anything of a question, `words` how much of it each candidate shares, and
    `said` which of them were said, and `stated` how much of the score is of a statement or a rule.
    """

    text: str
    features: Vectors
    kinds: npt.NDArray[np.int8]
    evidence: npt.NDArray[np.bool_]
    lengths: Ids
    days: Ids
    units: Ids
    gold: Mapping[int, int]
    words: Vectors
    said: npt.NDArray[np.bool_]
    stated: Vectors
    signals: Signals | None = None

    @property
    def any_will_do(self) -> bool:
        """True if one passage of the evidence is enough."""
        return not self.gold


@dataclass(frozen=True)
class DataFile:
    """A data file, and what was asked in each of its haystacks."""

    name: str
    sha256: str
    haystacks: tuple[tuple[Asked, ...], ...]

    def training(self, fold: int | None = None) -> list[Asked]:
        """Return the queries with evidence among their candidates, of all haystacks or of those outside `fold`.

        A fold is every other haystack, the first of a file in fold 0. A file with one haystack trains in no fold.
        """
        some = self.haystacks if fold is None else self.haystacks[1 - fold :: FOLDS] if len(self.haystacks) > 1 else ()
        return [asked for asked in chain(*some) if asked.evidence.any()]

    def held_out(self, fold: int) -> list[Asked]:
        """Return all queries of the haystacks in `fold`."""
        return list(chain(*self.haystacks[fold::FOLDS]))


def collect(path: Path, embedder: str) -> DataFile:
    """Replay every haystack of a file and keep what its queries found; adversarial ones are left out."""
    haystacks = []
    for count, haystack in enumerate(read_haystacks(path), 1):
        sys.stderr.write(f"{path.name}, haystack {count}: {len(haystack.queries)} queries\n")
        with tempfile.TemporaryDirectory(prefix="fusion-", ignore_cleanup_errors=True) as folder:
            method = Candidates(Setup(Path(folder) / "memory", embedder, "exact", haystack.is_agent_run))
            try:
                haystacks.append(tuple(_replay(haystack, method)))
            finally:
                method.close()
    return DataFile(path.name, sha256(path), tuple(haystacks))


def _replay(haystack: Haystack, method: Candidates) -> Iterator[Asked]:
    added = 0
    for query in haystack.queries:
        if query.type == "adversarial" or not query.question.text.strip():
            continue
        if query.cutoff > added:
            method.add(haystack.units[added : query.cutoff])
            added = query.cutoff
        yield method.ask(query, haystack)


class Candidates(Tinymem):
    """`Tinymem`, asked for its candidates instead of for the text that it makes of them."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.archive = self._memory.long_term
        self.places: list[tuple[int, int]] = []  # of each row of the catalog: the place of its unit or -1, and its day

    def ask(self, query: Query, haystack: Haystack) -> Asked:
        """The candidates of a query, with what scoring knows of them."""
        scored = self.score(query.question)
        catalog, rows = scored.snapshot, scored.rows
        starts, ends = catalog.start[rows], catalog.end[rows]
        units, days = np.array(self.places, np.int64).reshape(-1, 2)[rows].T
        gold = {} if query.needle else {at: max(1, len(haystack.units[at].text)) for at in _gold(query, haystack)}
        evidence = np.isin(units, list(gold))
        if query.needle:
            texts = (haystack.units[unit].text if unit >= 0 else "" for unit in units)
            evidence = np.array(
                [_holds(query.needle, *place) for place in zip(texts, starts, ends, strict=True)], np.bool_
            )
        said = catalog.kind[rows] == SAID
        return Asked(
            query.question.text, scored.features, scored.kinds, evidence, ends - starts, days, units, gold,
            scored.shared, said, scored.stated, scored.signals,
        )  # fmt: skip

    def score(self, question: Question) -> ScoredCandidates:
        """The candidates of a question, as recall scores them."""
        self.archive.queue.embed_pending()
        catalog = self.archive.current()
        self._place(catalog.step[len(self.places) :], catalog.part[len(self.places) :])
        now = question.now or EPOCH
        return Search(self.archive).score(question.text, now)

    def packed(self, scored: ScoredCandidates, budget: int, diversity: float = DIVERSITY) -> Recall:
        """Simulate recall's choice among the candidates."""
        return pack(
            scored.ranked(budget, Limits(min_relevance=0)),
            self.archive.opened,
            budget,
            self.archive.key,
            Limits(diversity, 0),
        )[0]

    def _place(self, numbers: Ids, parts: Ids) -> None:
        steps = self.archive.fetch(np.unique(numbers).tolist())
        for number, index in zip(numbers.tolist(), parts.tolist(), strict=True):
            step = steps[number]
            part, places = step.parts()[index], self._places[step.id]
            when = self.units[places[0]].timestamp
            place = -1 if part.kind in NO_UNIT else places[part.message]
            self.places.append((place, when.toordinal() if when else 0))


def _gold(query: Query, haystack: Haystack) -> list[int]:
    return [haystack.places[name] for name in query.gold]


def _holds(needle: str, text: str, start: int, end: int) -> bool:
    """Return whether a slice has the needle, with as much of its context as scoring asks for."""
    return needle in text[start:end] and end - start >= min(SLICE, len(text))


def mean_recall(queries: Sequence[Asked], weights: Sequence[Fusion], price: float = PRICE) -> list[float]:
    """The mean of what is simulated for queries, each with its weights, at each of BUDGETS; 0 of none."""
    if not queries:
        return [0.0] * len(BUDGETS)
    found = np.mean([simulate(asked, fusion, price) for asked, fusion in zip(queries, weights, strict=True)], axis=0)
    return [round(float(value), 3) for value in found]


def simulate(asked: Asked, fusion: Fusion, price: float = PRICE, budgets: Sequence[int] = BUDGETS) -> list[float]:
    """About what recall would score at each budget: the share of each gold unit that is there, or of the needle."""
    costs = asked.lengths / 4 + LABEL
    scores = fusion.score(asked.features, asked.kinds)
    order: list[int] = np.argsort(price * np.log(costs) - scores, kind="stable").tolist()
    return [share(asked, filled(asked, order, costs.tolist(), budget)) for budget in budgets]


def filled(asked: Asked, order: Sequence[int], costs: Sequence[float], budget: int) -> list[int]:
    """Return the candidates that fit, best first."""
    left, misses, days, taken = float(budget - FENCE), 0, set[int](), list[int]()
    for i in order:
        cost = costs[i] + (0 if (day := int(asked.days[i])) in days else HEADER)
        if cost <= left:
            taken.append(i)
            days.add(day)
            left, misses = left - cost, 0
        else:
            misses += 1
        if left < SMALLEST or misses >= MISSES:
            break
    return taken


def share(asked: Asked, taken: Sequence[int]) -> float:
    """Return the share of the evidence that these candidates hold."""
    if asked.any_will_do:
        return float(asked.evidence[taken].any())
    there = dict.fromkeys(asked.gold, 0)
    for i in taken:
        if (unit := int(asked.units[i])) in there:
            there[unit] += int(asked.lengths[i])
    shares = [there[unit] / length for unit, length in asked.gold.items()]
    return sum(1.0 if share >= WHOLE else share for share in shares) / len(shares)


def report(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The figures as text."""
    heads = "".join(f"{f'@{budget}':>8}" for budget in BUDGETS)
    lines = [f"{'simulated recall, held-out haystacks':44}{heads}"]
    for name, rows in found.items():
        lines.append(f"{name} ({rows['queries']} queries)")
        for label, values in rows.items():
            if label != "queries":
                lines.append(f"    {label:40}" + "".join(f"{value:8.3f}" for value in values))
    return "\n".join(lines)
