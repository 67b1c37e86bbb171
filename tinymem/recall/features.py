"""Features of each candidate, as numbers that mean the same in a chat of one-line turns and in tool output.

Scales depend little on which candidates were drawn and on the embedder: cosine and BM25 are shares of the best in the
whole memory, and a question's cosine is counted from that of passages which are far from it, since with some embedders
all cosines are high.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Ids, Vectors
from tinymem.recall.candidates import Candidates
from tinymem.recall.query.analysis import ASKING, Query, names_inside, spelled_alike
from tinymem.recall.query.dates import DAY, closeness
from tinymem.recall.query.identifiers import NUMBER, PATH, Codes, classes, files_of
from tinymem.recall.query.words import newest_call
from tinymem.recall.snapshot import ACT, SAID, TOOL, Snapshot, ranges
from tinymem.stores.words import has_cjk

__all__ = ["FEATURES", "NAMES", "Feature", "Rows", "features"]


Column: TypeAlias = npt.NDArray[Any]


class Feature(NamedTuple):
    """The meaning of a feature, and the family that people see it in."""

    family: str
    meaning: str


_MEANINGS = {
    "meaning": {
        "cosine": "closeness to the question, or of a long one to its closest part; 1 is the best here",
        # of agents' memories; a task needs a rule without asking for it, and shares few words with it
        "stated": "closeness to the question among short statements, by their rank: 1, then less",
    },
    "words": {
        "bm25": "rare words shared with the question; 1 is the best in this memory",
        # 0 where the query is a stretch, which has more words than are marked
        "coverage": "share of the question's words, by rarity, here and in two passages on each side",
    },
    "around": {
        "before_bm25": "bm25 of the step before, in the same session",
        "after_cosine": "cosine of the step after, in the same session",
        "after_bm25": "bm25 of the step after, in the same session",
        "answers": "bm25 of the step before, where that one asks",
        "day": "mean of the three best passages of the day, by cosine + bm25",
        # of a long listing few passages are what is wanted, however close the listing is
        "size": "ln(passages of the same text, up to 32), but for what the agent did",
        "text_bm25": "bm25 of the best passage of the same text",
        "size_bm25": "text_bm25, times size",
    },
    "who and when": {
        "speaker": "1 where the speaker is named in the question",
        # what an assistant says after a tool's output is a finding
        "reply": "1 for what an assistant said to a person",
        # "Now let me run the tests." says that something was done, and nothing of what came of it
        "announces": "1 where the agent only says what it does next",
        "recent": "-ln(1 + steps since)",
        # asked for what holds now, the newest that is said of it is the answer, and the rest what it was
        "now": "of a question of what holds now: recent, less that of the best by cosine + bm25",
        "milestone": "1 for final answers, pinned steps, and what the user marked",
        "dated": "1 in the spans of time that the question names, falling to 0 by days",
        "rule": "1 for a rule or a wish of a person among these",
        # a call says that something was looked for, its result says what was found
        "call": "1 for a call of a tool, or code",
    },
    "identifiers": {
        # these five are 0 where the query is a question; they do not count what the stretch itself shows
        "introduces": "ln(1 + identifiers that come up here first)",
        "typed_share": "share of the identifiers here that the agent has typed",
        "paths": "ln(1 + paths that stand here)",
        "call_named": "1 for what a call gave back that has an identifier of the stretch",
        # what an agent does next has most to do with the files that it is at
        "said_file": "1 for a step whose call, but of a shell, has a file of the newest call",
        "named": "rare identifiers of the question that stand here",
    },
}
FEATURES: dict[str, Feature] = {}
for _family, _meanings in _MEANINGS.items():
    FEATURES |= {name: Feature(_family, meaning) for name, meaning in _meanings.items()}
NAMES = tuple(FEATURES)

LONGEST = 32  # passages of a text from which on it is as good as endless
NEAR = (-2, -1, 1, 2)  # places beside a passage whose words count for it
FAR = 0.1  # of a question's candidates, at whose cosine closeness begins,
FEW = 10  # unless they are fewer than this
SHELL = re.compile(r"^$|bash|shell|terminal|exec|run|command|console|python", re.IGNORECASE)


class Rows:
    """Some `rows` of a snapshot, and its steps: a step is known by its first row, and -1 is none.

    Attributes:
        here: Where they stand, and what they are.
        firsts: Their steps.
        every: All rows of these steps, in order.
        acts: Those of them that are acts of the agent.
    """

    def __init__(self, snapshot: Snapshot, rows: Ids) -> None:
        self.steps, self.sessions, self.places, self.rows = snapshot.step, snapshot.session, snapshot.places, rows
        self.here, self.firsts = self.places[rows], self.of(rows)
        self.every, _ = self.spread(np.unique(self.firsts))
        self.acts = self.every[self.places["kind"][self.every] == ACT]

    def of(self, rows: Ids) -> Ids:
        """Return the step of each of `rows`."""
        return np.searchsorted(self.steps, self.steps[rows], "left")

    def before(self) -> Ids:
        """Return the step before that of each, where it is of the same session."""
        return self._beside(self.firsts - 1)

    def after(self) -> Ids:
        """Return the step after that of each, where it is of the same session."""
        return self._beside(self._ends(self.firsts))

    def _beside(self, rows: Ids) -> Ids:
        """Return the steps of rows that stand beside those, and may be none: -1 for these and for another session."""
        found = np.clip(rows, 0, len(self.steps) - 1)
        is_of_session = (found == rows) & (self.sessions[found] == self.sessions[self.firsts])
        return np.where(is_of_session, self.of(found), -1)

    def _ends(self, steps: Ids) -> Ids:
        """Return the row behind the last one of each of `steps`."""
        return np.searchsorted(self.steps, self.steps[steps], "right")

    def spread(self, known: Ids) -> tuple[Ids, Ids]:
        """Return all rows of steps that ascend, and the place of the first row of each among these."""
        lengths = self._ends(known) - known
        return ranges(known, lengths), np.cumsum(lengths) - lengths

    def best(self, chosen: Ids, signals: Sequence[Vectors]) -> Iterator[Vectors]:
        """Yield for each signal the best passage of each of the `chosen` steps, of any shape; 0 for step -1."""
        known, which = np.unique(np.append(-1, chosen), return_inverse=True)
        rows, before = self.spread(known[1:])
        for signal in signals:
            best = np.append(np.float32(0), np.maximum.reduceat(signal[rows], before))
            yield best[which[1:].reshape(chosen.shape)]


def features(query: Query, found: Candidates, snapshot: Snapshot) -> Vectors:
    """Compute the feature matrix of `found.rows`: `(len(found.rows), len(NAMES))` float32."""
    rows = found.rows
    if not len(rows):
        return np.empty((0, len(NAMES)), np.float32)
    whole, tops = Rows(snapshot, rows), [max(float(signal.max()), 1e-6) for signal in (found.cosine, found.bm25)]
    cosine, bm25, stated = _closeness(query, found, tops[0]), found.bm25[rows] / tops[1], found.stated[rows]
    columns = {
        "cosine": cosine,
        "bm25": bm25,
        "stated": stated,
        **_around(whole, found, tops),
        **_who_and_when(query, snapshot, whole, cosine + bm25),
        "rule": whole.here["rule"] & (stated > 0),
        **_texts(whole, found.bm25, tops[1]),
    }
    if query.is_stretch:
        columns |= _identifier_features(query, snapshot, whole)
    else:
        columns["coverage"] = _coverage(found, whole.sessions)
    if len(query.named):
        columns["named"] = _rarity_of_named(found, len(snapshot), whole)
    nothing = np.zeros(len(rows))
    return np.stack([columns.get(name, nothing) for name in NAMES], axis=1).astype(np.float32)


def _closeness(query: Query, found: Candidates, top: float) -> Vectors:
    """Return the cosines as shares of the highest; those of a question are counted from the FAR ones on."""
    cosine, floor = found.cosine[found.rows], 0.0
    if not query.is_stretch and len(cosine) >= FEW:
        far = int(FAR * len(cosine))
        floor = float(np.partition(cosine, far)[far])
    shares: Vectors = np.maximum((cosine - floor) / max(top - floor, 1e-6), -1 if query.is_stretch else 0)
    return shares


def _coverage(found: Candidates, sessions: Ids) -> Column:
    """Return the share of the question's terms, by rarity, that stand in each candidate or NEAR it in its session.

    Terms that stand nowhere count too: what is shared with a question in other words are words that say little.
    """
    rows = found.rows
    near = found.terms[rows]
    for distance in NEAR:
        beside = np.clip(rows + distance, 0, len(sessions) - 1)
        near |= found.terms[beside] * (sessions[beside] == sessions[rows])
    covered: Vectors = (1 - found.unseen) * (found.marks(near) @ found.rarity)
    return covered / max(float(found.rarity.sum()), 1e-6)


def _around(whole: Rows, found: Candidates, tops: Sequence[float]) -> dict[str, Column]:
    """Return what the steps before and after say, as shares of the highest cosine and BM25."""
    before, after = whole.before(), whole.after()
    cosines, bm25s = whole.best(np.stack([before, after]), [found.cosine, found.bm25])
    bm25s /= tops[1]
    return {
        "before_bm25": bm25s[0],
        "after_cosine": np.maximum(cosines[1] / tops[0], -1),
        "after_bm25": bm25s[1],
        "answers": bm25s[0] * whole.places["asks"][before],
        "reply": whole.here["reply"] & ((before < 0) | (whole.places["kind"][before] == SAID)),
    }


def _who_and_when(query: Query, snapshot: Snapshot, whole: Rows, base: Vectors) -> dict[str, Column]:
    """Return what depends on who said something and when; `base` is cosine + bm25."""
    here, times = whole.here, snapshot.time[whole.rows]
    recent: Column = -np.log1p(snapshot.last_step - whole.steps[whole.rows])
    return {
        "speaker": _is_speaker_named(query, snapshot.speakers, here),
        "announces": here["announces"],
        "recent": recent,
        "now": query.is_of_now * (recent - recent[base.argmax()]),
        "milestone": here["milestone"],
        "dated": closeness(times, query.spans),
        "day": _mean_of_best(base, (times // DAY).astype(np.int64)),
    }


def _texts(whole: Rows, bm25: Vectors, top: float) -> dict[str, Column]:
    """Return whether the text that a candidate is of is a call, ln(its passages), and its best BM25.

    What the agent did counts as one passage. No steps but those of candidates are looked at, or this would take as long
    as the memory is large.
    """
    every, is_act = whole.every, whole.here["kind"] == ACT
    changes = np.diff([whole.steps[every], whole.places["part"][every]]).any(axis=0)
    ends = np.append(np.flatnonzero(changes) + 1, len(every))
    of_row, lengths = np.searchsorted(ends, np.searchsorted(every, whole.rows), "right"), np.diff(ends, prepend=0)
    size: Column = np.where(is_act, 0, np.log(np.minimum(lengths[of_row], LONGEST))).astype(np.float32)
    best: Column = np.maximum.reduceat(bm25[every], ends - lengths)[of_row] / top
    # the first of a step's acts is a thought, unless it is the only one
    later = whole.acts[whole.places["part"][whole.acts] > 0]
    is_thought = (whole.here["part"] == 0) & np.isin(whole.firsts, whole.of(later))
    return {"call": is_act & ~is_thought, "size": size, "text_bm25": best, "size_bm25": size * best}


def _identifier_features(query: Query, snapshot: Snapshot, whole: Rows) -> dict[str, Column]:
    """Return introduces, typed_share, paths, call_named and said_file of a stretch.

    An agent copies most of what it types from earlier steps; the identifiers of the stretch itself it can still see.
    Numbers do not count: a log is full of them.
    """
    rows = whole.rows
    codes, lengths = snapshot.identifiers_of(rows)
    of_row, kinds = np.repeat(np.arange(len(rows)), lengths), classes(codes)
    hidden = ~np.isin(codes, query.identifiers) & (kinds != NUMBER)
    introduced = hidden & snapshot.seen.introduced(codes, rows[of_row])
    marked = (introduced, hidden & snapshot.seen.typed(codes, len(snapshot)), hidden, kinds == PATH)
    first, again, every, paths = (np.bincount(of_row[which], minlength=len(rows)) for which in marked)
    return {
        "introduces": np.log1p(first),
        "typed_share": again / np.maximum(every, 1),
        "paths": np.log1p(paths),
        **_of_calls(query, snapshot, whole),
    }


def _of_calls(query: Query, snapshot: Snapshot, whole: Rows) -> dict[str, Column]:
    """Return call_named and said_file. A shell's command has many files, and often the same: it is of none."""
    codes, lengths = snapshot.identifiers_of(whole.acts)
    of_act = np.repeat(whole.acts, lengths)
    tools = [code for name, code in snapshot.toolsets.items() if not SHELL.search(name)]
    is_file = np.isin(codes, files_of(newest_call(query.text))) & np.isin(whole.places["tools"][of_act], tools)
    hits = np.isin(codes, query.identifiers), is_file
    named, said = (np.isin(whole.firsts, whole.of(of_act[hit])) for hit in hits)
    return {"call_named": named & (whole.here["kind"] == TOOL), "said_file": said}


CALLED = 0.8  # of what an identifier in a call is worth to the call's result, which says something about it,
ASKED = 0.5  # and to the call itself, or to a question that names it


def _rarity_of_named(found: Candidates, total: int, whole: Rows) -> Column:
    """Sum the rarity of the question's identifiers that each candidate holds, in a memory of `total` passages."""
    kind, asks = whole.here["kind"], whole.here["asks"]
    named = _summed_rarity(*found.named, total)[whole.rows]
    of_step = np.zeros(total, np.float32)
    np.maximum.at(of_step, whole.firsts, named)
    named *= np.where((kind == ACT) | ((kind == SAID) & asks), ASKED, 1)
    return np.where(kind == TOOL, np.maximum(named, CALLED * of_step[whole.firsts]), named)


def _summed_rarity(rows: Ids, codes: Codes, total: int) -> Vectors:
    """Return for each of all rows the rarity of the identifiers that stand there, summed.

    The rarity of an identifier in df of n passages is ln((n + 1) / (df + 0.5)) / ln(n + 1): about 1 in one passage
    only, and 0 in all of them.
    """
    _, which, counts = np.unique(codes, return_inverse=True, return_counts=True)
    rarity = np.log((total + 1) / (counts + 0.5)) / np.log(total + 1)
    summed = np.zeros(total, np.float32)
    np.add.at(summed, rows, np.maximum(rarity, 0)[which].astype(np.float32))
    return summed


def _mean_of_best(base: Vectors, groups: Ids) -> Vectors:
    """Return for each candidate the mean of `base` over the three best of its group."""
    order = np.lexsort((-base, groups))
    ordered = groups[order]
    firsts = np.searchsorted(ordered, ordered)  # the place of the best of the group
    best = np.flatnonzero(np.arange(len(base)) - firsts < 3)
    means = np.zeros(len(base), np.float32)
    np.add.at(means, firsts[best], base[order[best]] / 3)
    return means[np.searchsorted(ordered, groups)]


def _is_speaker_named(query: Query, speakers: Mapping[str, int], here: npt.NDArray[np.void]) -> Column:
    """Mark the passages whose speaker's name, or a part of it, is in the question."""
    text, unspaced = query.text, has_cjk(query.text)
    capitalised = {word.lower() for word in re.findall(r"\b[^\W\d_a-z]\w{4,}", text)}
    asked = {*re.findall(r"\w+", text.lower()), *spelled_alike(capitalised - ASKING, speakers).values()}
    named = [
        code
        for name, code in speakers.items()
        if not asked.isdisjoint(re.findall(r"\w{3,}", name.lower())) or (unspaced and names_inside(text, name))
    ]
    is_named: Column = np.isin(here["speaker"], named) & (here["kind"] == SAID)
    return is_named
