"""Features of each candidate, as numbers that mean the same in a chat of one-line turns and in tool output.

Scales depend little on which candidates were drawn and on the embedder: cosine and BM25 are shares of the best in the
whole memory, and a question's cosine is counted from that of passages which are far from it, since with some embedders
all cosines are high.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Ids, Vectors
from tinymem.recall.candidates import Candidates
from tinymem.recall.query.analysis import ASKING, Query, names_inside, spelled_alike
from tinymem.recall.query.dates import DAY, closeness
from tinymem.recall.query.identifiers import NUMBER, PATH, classes
from tinymem.recall.snapshot import ACT, SAID, Snapshot
from tinymem.stores.words import has_cjk

__all__ = ["FEATURES", "NAMES", "Feature", "features"]


class Feature(NamedTuple):
    """The meaning of a feature, and the family that people see it in."""

    family: str
    meaning: str


FEATURES: Mapping[str, Feature] = {
    "cosine": Feature("meaning", "closeness to the question, or of a long one to its closest part; 1 is the best here"),
    "bm25": Feature("words", "rare words shared with the question; 1 is the best in this memory"),
    # 0 where the query is a stretch, which has more words than are marked
    "coverage": Feature("words", "share of the question's words, by rarity, here and in two passages on each side"),
    "before_bm25": Feature("around", "bm25 of the step before, in the same session"),
    "after_cosine": Feature("around", "cosine of the step after, in the same session"),
    "after_bm25": Feature("around", "bm25 of the step after, in the same session"),
    "answers": Feature("around", "bm25 of the step before, where that one asks"),
    "speaker": Feature("who and when", "1 where the speaker is named in the question"),
    # what an assistant says after a tool's output is a finding
    "reply": Feature("who and when", "1 for what an assistant said to a person"),
    # "Now let me run the tests." says that something was done, and nothing of what came of it
    "announces": Feature("who and when", "1 where the agent only says what it does next"),
    "recent": Feature("who and when", "-ln(1 + steps since)"),
    # asked for what holds now, the newest that is said of it is the answer, and the rest what it was
    "now": Feature("who and when", "of a question of what holds now: recent, less that of the best by cosine + bm25"),
    "milestone": Feature("who and when", "1 for final answers, pinned steps, and what the user marked"),
    "dated": Feature("who and when", "1 in the spans of time that the question names, falling to 0 by days"),
    "day": Feature("around", "mean of the three best passages of the day, by cosine + bm25"),
    # of agents' memories; a task needs a rule without asking for it, and shares few words with it
    "stated": Feature("meaning", "closeness to the question among short statements, by their rank: 1, then less"),
    "rule": Feature("who and when", "1 for a rule or a wish of a person among these"),
    # these four are 0 where the query is a question; they do not count what the stretch itself shows
    "introduces": Feature("identifiers", "ln(1 + identifiers that come up here first)"),
    "typed_share": Feature("identifiers", "share of the identifiers here that the agent has typed"),
    "paths": Feature("identifiers", "ln(1 + paths that stand here)"),
    "call_named": Feature("identifiers", "1 for what a call gave back that has an identifier of the stretch"),
    "named": Feature("identifiers", "rare identifiers of the question that stand here"),
    # a call says that something was looked for, its result says what was found
    "call": Feature("who and when", "1 for a call of a tool, or code"),
    # of a long listing few passages are what is wanted, however close the listing is
    "size": Feature("around", "ln(passages of the same text, up to 32), but for what the agent did"),
    "text_bm25": Feature("around", "bm25 of the best passage of the same text"),
    "size_bm25": Feature("around", "text_bm25, times size"),
}
NAMES = tuple(FEATURES)

LONGEST = 32  # passages of a text from which on it is as good as endless
NEAR = 2  # passages on either side whose words count for a passage
FAR = 0.1  # of a question's candidates, at whose cosine closeness begins,
FEW = 10  # unless they are fewer than this


class _Rows:
    """The rows of a snapshot, and its steps: a step is known by its first row, and -1 is none."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.steps, self.sessions, self.places = snapshot.step, snapshot.session, snapshot.places

    def of(self, rows: Ids) -> Ids:
        """Return the step of each of `rows`."""
        return np.searchsorted(self.steps, self.steps[rows], "left")

    def before(self, steps: Ids) -> Ids:
        """Return the step before each of `steps`, where it is of the same session."""
        found = self.of(np.maximum(steps - 1, 0))
        return np.where((steps > 0) & (self.sessions[found] == self.sessions[steps]), found, -1)

    def after(self, steps: Ids) -> Ids:
        """Return the step after each of `steps`, where it is of the same session."""
        ends = self.ends(steps)
        found = np.minimum(ends, len(self.steps) - 1)
        return np.where((ends == found) & (self.sessions[found] == self.sessions[steps]), found, -1)

    def ends(self, steps: Ids) -> Ids:
        """Return the row behind the last one of each of `steps`."""
        return np.searchsorted(self.steps, self.steps[steps], "right")

    def spread(self, known: Ids) -> tuple[Ids, Ids]:
        """Return all rows of steps that ascend, and the place of the first row of each among these."""
        lengths = self.ends(known) - known
        before = np.cumsum(lengths) - lengths
        return np.repeat(known - before, lengths) + np.arange(lengths.sum()), before

    def best(self, chosen: Ids, signals: Sequence[Vectors]) -> Iterator[Vectors]:
        """Yield for each signal the best passage of each of the `chosen` steps, of any shape; 0 for step -1."""
        known, which = np.unique(chosen, return_inverse=True)
        rows, before = self.spread(known[np.searchsorted(known, 0) :])
        for signal in signals:
            best = np.maximum.reduceat(signal[rows], before)
            yield np.append(np.zeros(int(chosen.min() < 0), np.float32), best)[which.reshape(chosen.shape)]


def features(query: Query, found: Candidates, snapshot: Snapshot) -> Vectors:
    """Compute the feature matrix of `found.rows`: `(len(found.rows), len(NAMES))` float32."""
    rows = found.rows
    if not len(rows):
        return np.empty((0, len(NAMES)), np.float32)
    tops = [max(float(signal.max()), 1e-6) for signal in (found.cosine, found.bm25)]
    far, floor = int(FAR * len(rows)), 0.0
    if not query.is_stretch and len(rows) >= FEW:
        floor = float(np.partition(found.cosine[rows], far)[far])
    cosine = np.maximum((found.cosine[rows] - floor) / max(tops[0] - floor, 1e-6), -1 if query.is_stretch else 0)
    bm25 = found.bm25[rows] / tops[1]
    base = cosine + bm25
    whole = _Rows(snapshot)
    here, times = whole.places[rows], snapshot.time[rows]
    firsts = whole.of(rows)
    before, after = whole.before(firsts), whole.after(firsts)
    cosines, bm25s = whole.best(np.stack([before, after]), [found.cosine, found.bm25])
    cosines, bm25s = np.maximum(cosines / tops[0], -1), bm25s / tops[1]
    calls, size, best = _texts(whole, rows, firsts, found.bm25)
    best /= tops[1]
    recent = -np.log1p(snapshot.last_step - snapshot.step[rows])
    columns = {
        "cosine": cosine,
        "bm25": bm25,
        "coverage": np.zeros(len(rows)) if query.is_stretch else _coverage(found, whole.sessions),
        "before_bm25": bm25s[0],
        "after_cosine": cosines[1],
        "after_bm25": bm25s[1],
        "answers": np.where((before >= 0) & whole.places["asks"][before], bm25s[0], 0),
        "speaker": _is_speaker_named(query, snapshot.speakers, here),
        "reply": here["reply"] & ((before < 0) | (whole.places["kind"][before] == SAID)),
        "announces": here["announces"],
        "recent": recent,
        "now": query.is_of_now * (recent - recent[base.argmax()]),
        "milestone": here["milestone"],
        "dated": closeness(times, query.spans),
        "day": _mean_of_best(base, (times // DAY).astype(np.int64)),
        "stated": found.stated[rows],
        "rule": here["rule"] & (found.stated[rows] > 0),
        **_identifier_features(query, snapshot, rows),
        "call_named": _is_call_named(query, snapshot, whole, firsts, here),
        "named": _rarity_of_named(query, found, snapshot, firsts, here),
        "call": calls,
        "size": size,
        "text_bm25": best,
        "size_bm25": size * best,
    }
    return np.stack([columns[name] for name in NAMES], axis=1).astype(np.float32)


def _coverage(found: Candidates, sessions: Ids) -> Vectors:
    """Return the share of the question's terms, by rarity, that stand in each candidate or NEAR it in its session.

    Terms that stand nowhere count too: what is shared with a question in other words are words that say little.
    """
    rows = found.rows
    near = found.terms[rows]
    for distance in range(1, NEAR + 1):
        for beside in (np.maximum(rows - distance, 0), np.minimum(rows + distance, len(sessions) - 1)):
            near |= np.where(sessions[beside] == sessions[rows], found.terms[beside], 0).astype(np.uint32)
    bits = near[:, np.newaxis] >> np.arange(len(found.rarity), dtype=np.uint32) & 1
    covered: Vectors = (1 - found.unseen) * (bits @ found.rarity) / max(float(found.rarity.sum()), 1e-6)
    return covered


def _texts(whole: _Rows, rows: Ids, firsts: Ids, bm25: Vectors) -> tuple[npt.NDArray[np.bool_], Vectors, Vectors]:
    """Return for the text that each of `rows` is of: whether it is a call, ln(its passages), and its best `bm25`.

    A call is what the agent did, but for a thought: that is the first text of its step, and a call comes behind it.
    What the agent did counts as one passage. `firsts` are the steps of `rows`; no other steps are looked at, or this
    would take as long as the memory is large.
    """
    every, _ = whole.spread(np.unique(firsts))
    steps, part, kind = whole.steps[every], whole.places["part"][every], whole.places["kind"][every]
    ends = np.append(np.flatnonzero((np.diff(steps) != 0) | (np.diff(part) != 0)) + 1, len(every))
    place = np.searchsorted(every, rows)
    of_row = np.searchsorted(ends, place, "right")
    end, is_act = ends[of_row], kind[place] == ACT
    behind = np.minimum(end, len(every) - 1)
    is_followed = (end == behind) & (steps[behind] == steps[place]) & (kind[behind] == ACT)
    lengths = np.diff(ends, prepend=0)
    sizes: Vectors = np.where(is_act, 0, np.log(np.minimum(lengths[of_row], LONGEST))).astype(np.float32)
    best: Vectors = np.maximum.reduceat(bm25[every], ends - lengths)[of_row]
    return is_act & ~((part[place] == 0) & is_followed), sizes, best


def _identifier_features(query: Query, snapshot: Snapshot, rows: Ids) -> dict[str, Vectors]:
    """Return introduces, typed_share and paths; all are 0 where the query is a question.

    An agent copies most of what it types from earlier steps; the identifiers of the stretch itself it can still see.
    Numbers do not count: a log is full of them.
    """
    if not query.is_stretch:
        return dict.fromkeys(("introduces", "typed_share", "paths"), np.zeros(len(rows), np.float32))
    codes, lengths = snapshot.identifiers_of(rows)
    of_row, kinds = np.repeat(np.arange(len(rows)), lengths), classes(codes)
    hidden = ~np.isin(codes, query.identifiers) & (kinds != NUMBER)
    introduced = hidden & snapshot.seen.introduced(codes, rows[of_row])
    marked = (introduced, hidden & snapshot.seen.typed(codes), hidden, kinds == PATH)
    first, again, every, paths = (np.bincount(of_row[which], minlength=len(rows)) for which in marked)
    return {"introduces": np.log1p(first), "typed_share": again / np.maximum(every, 1), "paths": np.log1p(paths)}


def _is_call_named(
    query: Query, snapshot: Snapshot, whole: _Rows, firsts: Ids, here: npt.NDArray[np.void]
) -> npt.NDArray[np.bool_]:
    """Mark what tools gave back in steps, known by their first rows, whose acts have an identifier of the stretch."""
    if not query.is_stretch:
        return np.zeros(len(firsts), np.bool_)
    every, _ = whole.spread(np.unique(firsts))
    acts = every[whole.places["kind"][every] == ACT]
    codes, lengths = snapshot.identifiers_of(acts)
    is_named = np.zeros(int(firsts.max()) + 1, np.bool_)
    is_named[whole.of(np.repeat(acts, lengths)[np.isin(codes, query.identifiers)])] = True
    marked: npt.NDArray[np.bool_] = is_named[firsts] & (here["kind"] != ACT) & (here["kind"] != SAID)
    return marked


CALLED = 0.8  # of what an identifier in a call is worth to the call's result, which says something about it,
ASKED = 0.5  # and to the call itself, or to a question that names it


def _rarity_of_named(
    query: Query, candidates: Candidates, snapshot: Snapshot, firsts: Ids, here: npt.NDArray[np.void]
) -> Vectors:
    """Sum the rarity of the question's identifiers that each candidate holds; `firsts` are their steps.

    The rarity of an identifier in df of n passages is ln((n + 1) / (df + 0.5)) / ln(n + 1): about 1 in one passage
    only, and 0 in all of them.
    """
    found = np.zeros(len(snapshot), np.float32)
    if not len(query.named):
        return found[candidates.rows]
    rows, codes = candidates.named or snapshot.rows_with(query.named)
    _, which, counts = np.unique(codes, return_inverse=True, return_counts=True)
    rarity = np.log((len(snapshot) + 1) / (counts + 0.5)) / np.log(len(snapshot) + 1)
    np.add.at(found, rows, np.maximum(rarity, 0)[which].astype(np.float32))
    named: Vectors = found[candidates.rows]
    of_step = np.zeros(int(firsts.max()) + 1, np.float32)
    np.maximum.at(of_step, firsts, named)
    kind = here["kind"]
    named *= np.where((kind == ACT) | ((kind == SAID) & here["asks"]), ASKED, 1)
    is_result = (kind != ACT) & (kind != SAID)
    return np.where(is_result, np.maximum(named, CALLED * of_step[firsts]), named)


def _mean_of_best(base: Vectors, groups: Ids) -> Vectors:
    """Return for each candidate the mean of `base` over the three best of its group."""
    order = np.lexsort((-base, groups))
    is_first = np.diff(groups[order], prepend=groups[order[0]] - 1) != 0
    starts, group = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    is_best = np.arange(len(base)) - starts[group] < 3
    total = np.zeros(len(starts), np.float32)
    np.add.at(total, group[is_best], base[order[is_best]] / 3)
    means = np.empty(len(base), np.float32)
    means[order] = total[group]
    return means


def _is_speaker_named(query: Query, speakers: Mapping[str, int], here: npt.NDArray[np.void]) -> Vectors:
    """Return 1 for each passage whose speaker's name, or a part of it, is in the question; else 0."""
    text, unspaced = query.text, has_cjk(query.text)
    asked = set(re.findall(r"\w+", text.lower()))
    capitalised = {word.lower() for word in re.findall(r"\b[^\W\d_a-z]\w{4,}", text)}
    asked |= set(spelled_alike(capitalised - ASKING, speakers).values())
    named = [
        code
        for name, code in speakers.items()
        if asked & set(re.findall(r"\w{3,}", name.lower())) or (unspaced and names_inside(text, name))
    ]
    said: Vectors = (np.isin(here["speaker"], named) & (here["kind"] == SAID)).astype(np.float32)
    return said
