"""Linear fusion: one weighted sum of the features, with weights for each kind of passage.

The sum is fitted as the log-odds that a passage, of all candidates, is evidence; `relevance` makes a probability of it.
Any kind of passage can answer a question, so for questions all kinds have the same weights. A stretch of a run is
another kind of query, and for it tool output, the agent's own acts and the words of people have weights of their own,
which are the same for all embedders: on runs cosines earn little. For a question they belong to an embedder, since
cosines differ in what they say; "other" serves those without weights of their own.
The published weights are in `tinymem/data/fusion.json` with their provenance.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import resources
from itertools import repeat

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Ids, Vectors
from tinymem.recall.candidates import Candidates
from tinymem.recall.features import NAMES, features
from tinymem.recall.query.analysis import Query
from tinymem.recall.relevance import LIKELY, WORTH, Signals, calibration, gate, price_of
from tinymem.recall.selection.limits import Limits
from tinymem.recall.selection.opened import RankedPassage
from tinymem.recall.snapshot import SAID, Snapshot

__all__ = ["OTHER", "Fusion", "ScoredCandidates", "load_weights", "name_of_weights"]

KIND_NAMES = ("tool", "act", "said", "question")  # rows of weights: `Snapshot.kind` for a stretch, else the last
QUESTION = 3
NAMED = NAMES.index("named")
STATED = [NAMES.index("stated"), NAMES.index("rule")]
OTHER = "other"  # the name of the weights for embedders without any of their own


@dataclass(frozen=True)
class Fusion:
    """The weights: `weights` is `(4, len(NAMES))`, and `bias` `(4,)`.

    There is a row each for tool output, the agent's acts and words of people, where the query is a stretch of a run,
    and one for all of them where it is a question.
    """

    weights: Vectors
    bias: Vectors

    def score(self, features: Vectors, kinds: npt.NDArray[np.int8]) -> Vectors:
        """Return the log-odds of each passage: `(n,)`, for `features` `(n, len(NAMES))` and the passages' `kinds`."""
        scores: Vectors = np.einsum("nf,nf->n", features, self.weights[kinds]) + self.bias[kinds]
        return scores

    def contributions(self, features: Vectors, kind: int) -> dict[str, float]:
        """Return the share of each feature in the score of one passage, strongest first."""
        shares = (features * self.weights[kind]).tolist()
        strongest = sorted(zip(NAMES, shares, strict=True), key=lambda named: -abs(named[1]))
        return {name: round(share, 3) for name, share in strongest if round(share, 3)}

    @classmethod
    def from_json(cls, text: str, embedder: str = "static") -> Fusion:
        """Read the weights for an embedder's name as `fusion.json` has them: those of NAMES that are not 0."""
        kinds = json.loads(text)["weights"]
        questions = kinds["question"]
        rows = kinds | {"question": questions.get(name_of_weights(embedder), questions[OTHER])}
        numbers = [[*map(rows[kind].get, (*NAMES, "bias"), repeat(0.0))] for kind in KIND_NAMES]
        table = np.array(numbers, np.float32)
        return cls(table[:, :-1], table[:, -1])


def name_of_weights(embedder: str) -> str:
    """Return the name of an embedder's weights: all-MiniLM-L6-v2 is "minilm", whatever runs it and wherever it lies.

    >>> name_of_weights("sentence-transformers:models/all-MiniLM-L6-v2")
    'minilm'
    """
    last = re.split(r"[:/\\]", embedder.lower().replace("_", "-"))[-1]
    return "minilm" if last.endswith("all-minilm-l6-v2") else embedder


@functools.cache
def load_weights(embedder: str = "static") -> Fusion:
    """Return the weights that come with the library, for an embedder's name."""
    return Fusion.from_json((resources.files("tinymem") / "data" / "fusion.json").read_text("utf-8"), embedder)


@dataclass(frozen=True)
class ScoredCandidates:
    """The candidates for a query: the kind of weights for each, their features, and the weights.

    `features` is `(len(rows), len(NAMES))`.
    """

    query: Query
    snapshot: Snapshot
    found: Candidates
    kinds: npt.NDArray[np.int8]
    features: Vectors
    fusion: Fusion

    @classmethod
    def of(cls, query: Query, snapshot: Snapshot, found: Candidates, fusion: Fusion | None = None) -> ScoredCandidates:
        """Return candidates with their features, to be weighed by `fusion`, or its embedder's published weights."""
        kinds = snapshot.kind[found.rows] if query.is_stretch else np.full(len(found.rows), QUESTION, np.int8)
        columns = features(query, found, snapshot)
        return cls(query, snapshot, found, kinds, columns, fusion or load_weights(query.embedder))

    @property
    def rows(self) -> Ids:
        """The candidates' rows of the snapshot."""
        return self.found.rows

    @cached_property
    def scores(self) -> Vectors:
        """The log-odds of each: `(len(rows),)`."""
        return self.fusion.score(self.features, self.kinds)

    @cached_property
    def shared(self) -> Vectors:
        """The rarity of the query's words that each has, summed: `(len(rows),)`.

        A word of df among n passages counts ln((n + 1) / (df + 0.5)) / ln(n + 1): about 1 where no other has it.
        """
        rarity = np.logaddexp(0, self.found.rarity) / np.log(len(self.snapshot.id) + 1)
        shared: Vectors = (self.found.marks(self.found.terms[self.rows]) @ rarity).astype(np.float32)
        return shared

    @cached_property
    def stated(self) -> Vectors:
        """The part of each score that is of a statement or a rule: `(len(rows),)`."""
        stated: Vectors = self.features[:, STATED] @ self.fusion.weights[QUESTION, STATED]
        return stated

    @cached_property
    def relevance(self) -> npt.NDArray[np.float64]:
        """The chance of each to be what is asked for: `(len(rows),)`."""
        said = self.snapshot.kind[self.rows] == SAID
        return calibration(self.query.is_stretch).relevance(self.scores, self.shared, said, self.stated)

    @cached_property
    def signals(self) -> Signals | None:
        """The signals of whether the memory knows anything of the question; None for a stretch of a run."""
        if self.query.is_stretch or not len(self.rows):
            return None
        coverage, speaker = (float(self.features[:, NAMES.index(name)].max()) for name in ("coverage", "speaker"))
        found = self.found
        coverage /= max(1 - found.unseen, 1e-6)
        cosine, score = float(found.cosine[self.rows].max()), float(self.scores.max())
        return Signals(score, cosine, found.unseen, found.is_strange, coverage, speaker, len(self.snapshot.id))

    @cached_property
    def odds(self) -> float:
        """The log-odds that the memory knows something of it.

        They are not below 0 where it has an identifier of the question, or a passage that is likely what is asked for.
        """
        signals = self.signals
        if signals is None:
            return 0.0
        odds = gate(self.query.embedder).odds(signals)
        return max(odds, 0.0) if self.features[:, NAMED].any() or self.relevance.max() >= LIKELY else odds

    def ranked(self, budget: int, limits: Limits = Limits()) -> list[RankedPassage]:  # noqa: B008 (it is frozen)
        """Rank the candidates, best first, as far as `budget` tokens may reach.

        Those of less relevance than the limits say are marked. Where they say none, those are that are not worth their
        tokens: none for a stretch, and nothing that has an identifier of a question.
        """
        snapshot, rows = self.snapshot, self.rows
        order = np.argsort(price_of(snapshot.end[rows] - snapshot.start[rows]) - self.scores, kind="stable")
        order = order[: 64 + budget // 8]
        whys = [partial(self.why, place) for place in order.tolist()]
        judged = (self.scores, self.relevance, self._are_relevant(limits), snapshot.kind[rows])
        columns = [column[order].tolist() for column in judged]
        places = zip(*snapshot.places_of(rows[order]), strict=True)
        return [*map(RankedPassage, *places, *columns, whys)]

    def why(self, place: int) -> Callable[[], Mapping[str, float]]:
        """Return what gives the share of each feature in the score of a candidate.

        It has a copy of that one's features, so that what comes back holds neither the snapshot nor those of others.
        """
        return partial(self.fusion.contributions, self.features[place].copy(), int(self.kinds[place]))

    def _are_relevant(self, limits: Limits) -> npt.NDArray[np.bool_]:
        """Mark what is of the least relevance, or worth its tokens beside the best."""
        if limits.min_relevance is not None:
            return self.relevance >= limits.min_relevance
        third = float(np.sort(self.relevance)[-3:].min(initial=1))  # the best may be the same question, asked before
        is_worth = self.relevance >= max(WORTH, limits.share * third)
        return is_worth | self.query.is_stretch | (self.features[:, NAMED] > 0)
