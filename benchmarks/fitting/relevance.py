"""Fits the calibration of relevance, tinymem/data/relevance.json, and shows by cross-validation how true it is.

    python -m benchmarks.fitting.relevance --data FILE... --moments FILE.json [--out tinymem/data/relevance.json]
        [--curve benchmarks/results/relevance.json]
    python -m benchmarks.fitting.relevance --write | --check     # the tables in tables/relevance.md

Method: weighted logistic regression of evidence on the signals of `tinymem.recall.relevance`, by Newton's method, over
the best candidates of each query. Every haystack is scored by weights that were fitted without it (`--folds`, which
`benchmarks.fitting.fusion` writes). The figures are of two folds, as there. What the files have no queries for
(stretches, or questions) stays as it is.

Questions are asked in their own haystack, in another one, where nothing answers them, and in small memories of 3 to 100
consecutive units, with and without the answer; SAY has the weight of each in a file, and each file has the same say. A
stretch of a run is asked in its own run only. Prompts of `--moments` are asked among made sessions and among recorded
ones, those of `--data`; half of their weight is of those that need something. The floor of prompts is where FALSE of
those that need nothing get something, and its curve is of numbers that were fitted without the kind of work, or without
the class of prompts.

The gate is a logistic regression too, of whether a question is asked where its answer is, on the signals of the
question as a whole. For it questions of other files are asked as well, and general ones, and nonsense. It is fitted
with the cosines of the embedder "static", and without any for all others, and moved by CAUTION, so that few questions
lose their answer. Its figures are of gates that were fitted without the file.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tinymem
from benchmarks.fitting.evidence import FOLDS, HEADER, LABEL, Asked, Candidates, filled, share
from benchmarks.fitting.fusion import FOLDED, QUESTION
from benchmarks.fitting.prompts import SESSIONS, prompted
from benchmarks.fitting.relevance_table import tables
from benchmarks.harness.data import Haystack, Query, Question, read_haystacks, sha256
from benchmarks.harness.documents import parser_of, placed, settle
from benchmarks.harness.methods import Setup
from tinymem import TinymemError
from tinymem.errors import InputError
from tinymem.protocols import Ids, Vectors
from tinymem.recall.features import NAMES
from tinymem.recall.fusion import Fusion
from tinymem.recall.relevance import LIKELY, PRICE, WORTH, Calibration, Gate
from tinymem.recall.search import LITTLE
from tinymem.recall.selection.packing import FENCE

__all__ = ["Sample", "curve", "fit", "main"]

PROGRAM = "benchmarks.fitting.relevance"
PUBLISHED = Path(tinymem.__file__).parent / "data" / "relevance.json"
CURVE = Path(__file__).parents[1] / "results" / "relevance.json"
PAGE = Path(__file__).parents[1] / "tables" / "relevance.md"
MARKS = f"<!-- relevance: python -m {PROGRAM} --write -->", "<!-- end of relevance -->"
OWN, FOREIGN, SMALL, SMALL_FOREIGN, ADVERSARIAL = "own", "foreign", "small", "small, foreign", "adversarial"
FAR, GENERAL, NONSENSE = "far", "general", "nonsense"
NEEDS, NOTHING, PASTED = "needs", "nothing", "pasted"  # prompts; a pasted error is read as a stretch, and needs nothing
SAY = {OWN: 0.5, FOREIGN: 0.5, SMALL: 0.125, SMALL_FOREIGN: 0.5, NEEDS: 6.0, NOTHING: 6.0, PASTED: 0.25}
SAY_OF_GATE = {OWN: 1.0, FOREIGN: 0.25, SMALL: 0.25, SMALL_FOREIGN: 0.25, FAR: 0.5, GENERAL: 0.15, NONSENSE: 0.1}
CAUTION = {"static": 3.0, "other": 3.6}  # log-odds below which the gate closes
ASKED_FAR = 40  # questions of other files that are asked in a haystack
GENERAL_ONES = (
    "what is the capital of France", "who wrote Hamlet", "how many legs has a spider", "how do vaccines work",
    "what is the boiling point of water at altitude", "explain photosynthesis", "when did the second world war end",
    "what is the square root of 144", "which planet is the largest", "translate good morning into Spanish",
    "who painted the Mona Lisa", "what causes tides", "how does a refrigerator work", "what is the speed of light",
    "list the prime numbers below 30", "who discovered penicillin", "what is the currency of Japan",
    "how tall is Mount Everest", "what is quantum entanglement", "how do I boil an egg", "what does DNA stand for",
    "who was the first person on the moon", "what is the GDP of Brazil", "how far is the sun", "what is a black hole",
    "when was the printing press invented", "why is the sky blue", "what languages are spoken in Switzerland",
    "who is the author of War and Peace", "what is the chemical symbol for gold",
)  # fmt: skip
NONSENSE_ONES = ("xqzv", "blorf snarg", "asdf qwer zxcv", "wibble wobble flarn", "kjhgf mnbvc", "grumblefix snood")
SIZES = 3, 10, 30, 100  # units of a small memory
ASKED_ELSEWHERE, ASKED_SMALL = 60, 40  # questions of a file that are asked in other haystacks, and in small memories
EDGES = (0.0, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of the bins of the curve
BEST = 24  # candidates of a query that have a say: nearly all others are hopeless, and would decide the fit
PARTS = 9  # of kinds and classes of prompts, each left out once
FALSE = 0.05  # share of the prompts that need nothing, small talk aside, that may get something
SHOWN = 0.1  # relevance from which on the error is reported by itself, too: nearly all candidates have less
SPOKEN = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4)  # floors of prompts that the table shows
FLOORS = (0.0, None, 0.005, 0.01, 0.03, 0.1)  # `min_relevance` of the table; None is the default
BUDGETS = (512, 1024, 4096)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """A query that was asked somewhere: the scores of its candidates by weights that never saw the haystack."""

    file: str
    fold: int
    condition: str
    units: int
    asked: Asked
    scores: Vectors
    part: int = -1  # of the prompts of moments

    @property
    def is_stretch(self) -> bool:
        """True for a stretch of a run."""
        return bool(self.asked.kinds[0] != QUESTION)

    def relevance(self, numbers: Calibration) -> Floats:
        """The relevance of its candidates, by these numbers."""
        return numbers.relevance(self.scores, self.asked.words, self.asked.said, self.asked.stated)


# -- what is asked ----------------------------------------------------------------------------------------------------


def samples(paths: Sequence[Path], folds: Mapping[str, Sequence[Fusion]]) -> Iterator[Sample]:
    """Yield all samples of the files."""
    files = {path: list(read_haystacks(path)) for path in paths}
    for path, haystacks in files.items():
        if (weights := folds.get(sha256(path))) is None:
            raise InputError(f"there are no weights that are fitted without the haystacks of {path.name}")
        others = [one for other, some in files.items() if other != path for one in some if _asks(one)]
        for at, haystack in enumerate(haystacks):
            sys.stderr.write(f"{path.name}, haystack {at + 1}: {len(haystack.queries)} queries\n")
            elsewhere = haystacks[:at] + haystacks[at + 1 :] or others[:1]
            for condition, units, asked in _asked(haystack, elsewhere, others, len(haystacks)):
                if len(asked.kinds):
                    scores = weights[at % FOLDS].score(asked.features, asked.kinds)
                    yield Sample(path.name, at % FOLDS, condition, units, asked, scores)


def prompts(path: Path, runs: Sequence[Haystack]) -> Iterator[Sample]:
    """Yield the samples of a file of moments."""
    parts: dict[str, int] = {}
    for one in prompted(path, runs):
        condition = NEEDS if one.is_needed else NOTHING if one.asked.kinds[0] == QUESTION else PASTED
        part = parts.setdefault(one.name, len(parts)) % PARTS
        yield Sample(one.filler, part % FOLDS, condition, SESSIONS, one.asked, one.scores, part)


def _asks(haystack: Haystack) -> bool:
    """Return True for a haystack whose queries are questions, not stretches of its run."""
    return not haystack.is_agent_run or "\n" not in haystack.queries[0].question.text.strip()


def _asked(
    haystack: Haystack, elsewhere: Sequence[Haystack], far: Sequence[Haystack], count: int
) -> Iterator[tuple[str, int, Asked]]:
    """Yield what is asked in one of `count` haystacks, the condition and the size of the memory with it."""
    size = len(haystack.units)
    own = [query for query in haystack.queries if query.question.text.strip()]
    if not _asks(haystack):
        yield from ((OWN, size, asked) for asked in _replay(haystack, own))
        return
    answered = [query for query in own if query.type != "adversarial" and query.gold]
    strange, distant = (
        [replace(query, gold=(), needle=None, cutoff=size) for one in some for query in one.queries
         if query.type != "adversarial"]
        for some in (elsewhere, far)
    )  # fmt: skip
    plain = [replace(own[0], gold=(), needle=None, cutoff=size, question=Question(text, own[0].question.now))
             for text in (*GENERAL_ONES, *NONSENSE_ONES)]  # fmt: skip
    more = [
        *((FOREIGN, query) for query in _spread(strange, max(1, ASKED_ELSEWHERE // count))),
        *((FAR, query) for query in _spread(distant, ASKED_FAR)),
        *((GENERAL if at < len(GENERAL_ONES) else NONSENSE, query) for at, query in enumerate(plain)),
    ]
    asked_here = [(ADVERSARIAL if query.type == "adversarial" else OWN, query) for query in own] + more
    replayed = _replay(haystack, [query for _, query in asked_here])
    for (condition, _), asked in zip(asked_here, replayed, strict=True):
        yield condition, size, asked
    if haystack.is_agent_run:  # some of its messages would be results without their calls
        return
    for place, query in enumerate(_spread(answered, max(1, ASKED_SMALL // count))):
        for units in SIZES:
            small = _small(haystack, query, units, place)
            wrong = replace(strange[(7 * place + units) % len(strange)], cutoff=len(small.units))
            for condition, asked in zip((SMALL, SMALL_FOREIGN), _replay(small, [*small.queries, wrong]), strict=True):
                yield condition, units, asked


def _small(haystack: Haystack, query: Query, units: int, place: int) -> Haystack:
    """Return some consecutive units of a haystack, with a piece of evidence for the query somewhere among them."""
    gold = haystack.places[query.gold[place % len(query.gold)]]
    first = max(0, gold - 7 * place % units)
    some = slice(first, first + units)
    ids = haystack.ids[some]
    kept = replace(query, gold=tuple(name for name in query.gold if name in ids), cutoff=len(ids))
    return Haystack(haystack.id, haystack.units[some], ids, (kept,))


def _replay(haystack: Haystack, queries: Sequence[Query]) -> Iterator[Asked]:
    with tempfile.TemporaryDirectory(prefix="relevance-", ignore_cleanup_errors=True) as folder:
        method = Candidates(Setup(Path(folder) / "memory", "static", "exact", haystack.is_agent_run))
        try:
            added = 0
            for query in queries:
                if query.cutoff > added:
                    method.add(haystack.units[added : query.cutoff])
                    added = query.cutoff
                yield method.ask(query, haystack)
        finally:
            method.close()


def _spread(queries: Sequence[Query], most: int) -> list[Query]:
    count = min(most, len(queries))
    return [queries[i * len(queries) // count] for i in range(count)]


# -- fit --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Points:
    """The best candidates of many samples, one after the other: their signals and 1, and if each is evidence."""

    x: Floats
    evidence: Floats
    weight: Floats

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Points:
        """Return the candidates of samples, each sample weighed by its condition and file."""
        count = Counter((one.file, one.condition) for one in samples)
        best = [_best(one.scores) for one in samples]
        x = np.concatenate([_columns(one)[rows] for one, rows in zip(samples, best, strict=True)])
        evidence = np.concatenate([one.asked.evidence[rows] for one, rows in zip(samples, best, strict=True)])
        say = [SAY.get(one.condition, 0.0) / count[one.file, one.condition] for one in samples]
        return cls(x, evidence.astype(np.float64), np.repeat(say, [*map(len, best)]))


def _best(scores: Vectors) -> Ids:
    return np.argsort(-scores, kind="stable")[:BEST]


def _columns(one: Sample) -> Floats:
    exact = one.scores.astype(np.float64)
    rivals = np.full(len(exact), np.logaddexp.reduce(exact))
    return np.column_stack([exact, rivals, one.asked.words, one.asked.said, one.asked.stated, np.ones(len(exact))])


def fit(samples: Sequence[Sample]) -> Calibration:
    """Return the numbers of the regression over the best candidates of the samples."""
    return Calibration(*_regression(Points.of(samples)).round(3).tolist())


def _regression(points: Points) -> Floats:
    found = np.zeros(points.x.shape[1])
    for _ in range(50):
        chance = _chance(points.x @ found)
        gradient = points.x.T @ (points.weight * (chance - points.evidence)) + 1e-6 * found
        curvature = (points.x * (points.weight * chance * (1 - chance))[:, np.newaxis]).T @ points.x
        step = np.linalg.solve(curvature + 1e-6 * np.eye(len(found)), gradient)
        found -= step
        if np.abs(step).max() < 1e-9:
            break
    return found


def fit_gates(samples: Sequence[Sample]) -> dict[str, Gate]:
    """Return the gate for cosines of the embedder "static", and the one for all others, which does without."""
    some = [one for one in samples if one.asked.signals is not None and one.condition in SAY_OF_GATE]
    x = np.array([_signals(one) for one in some])
    count = Counter((one.file, one.condition) for one in some)
    weight = np.array([SAY_OF_GATE[one.condition] / count[one.file, one.condition] for one in some])
    points = Points(x, np.array([one.condition in (OWN, SMALL) for one in some], np.float64), weight)
    gates = {}
    for name, caution in CAUTION.items():
        points.x[:, 1] *= name == "static"
        numbers = _regression(points) + np.array([*[0] * (points.x.shape[1] - 1), caution])
        gates[name] = Gate(*numbers.round(3).tolist())
    return gates


def _signals(one: Sample) -> list[float]:
    """The signals of a sample, its best score by weights that never saw it, and 1."""
    assert one.asked.signals is not None
    signals = one.asked.signals._replace(score=float(one.scores.max()))
    return [*signals[:-1], float(np.log(signals.passages + 1)), 1.0]


def _chance(logits: Floats) -> Floats:
    chance: Floats = 1 / (1 + np.exp(-np.clip(logits, -50, 50)))
    return chance


# -- figures ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """A sample with the relevance of its candidates, by a calibration that was fitted on other haystacks."""

    sample: Sample
    relevance: Floats
    is_known: bool = True


def measured(samples: Sequence[Sample]) -> list[Measured]:
    """Return the samples with relevance, cross-validated."""
    found = []
    for fold in range(FOLDS):
        by_kind = {is_stretch: fit(_of_kind(samples, is_stretch, fold)) for is_stretch in _kinds(samples)}
        for one in samples:
            if one.fold == fold:
                found.append(Measured(one, one.relevance(by_kind[one.is_stretch])))
    asking = [one for one in samples if one.asked.signals is not None]
    if len(files := {one.file for one in asking}) > 1:
        gates = {file: fit_gates([one for one in asking if one.file != file])["static"] for file in files}
        found = [replace(one, is_known=_is_known(one, gates)) for one in found]
    return found


def _is_known(found: Measured, gates: Mapping[str, Gate]) -> bool:
    one = found.sample
    if one.asked.signals is None or _names(one).any() or found.relevance.max() >= LIKELY:
        return True
    return gates[one.file].odds(one.asked.signals._replace(score=float(one.scores.max()))) >= 0


def _names(one: Sample) -> npt.NDArray[np.bool_]:
    """Mark the candidates that have a rare identifier of the question."""
    named: npt.NDArray[np.bool_] = one.asked.features[:, NAMES.index("named")] > 0
    return named


def spoken(samples: Sequence[Sample]) -> list[tuple[Sample, Floats]]:
    """Return the prompts of moments with the relevance of their candidates, by numbers fitted without their part."""
    found = []
    for part in range(PARTS):
        some = [one for one in samples if one.part == part]
        numbers = {is_stretch: fit([one for one in _of_kind(samples, is_stretch) if one.part != part])
                   for is_stretch in _kinds(some)}  # fmt: skip
        found += [(one, one.relevance(numbers[one.is_stretch])) for one in some]
    return found


def floor_of(found: Sequence[tuple[Sample, Floats]]) -> float:
    """Return the relevance that FALSE of the prompts that need nothing reach."""
    return round(float(np.quantile([best.max() for one, best in found if one.condition != NEEDS], 1 - FALSE)), 3)


def speaking(found: Sequence[tuple[Sample, Floats]], floor: float) -> dict[str, Any]:
    """Return by filler how many prompts get something at each of several floors, of those that need it or do not."""
    record: dict[str, Any] = {}
    for filler in sorted({one.file for one, _ in found}):
        here = [(one, best) for one, best in found if one.file == filler]
        needed = [best for one, best in here if one.condition == NEEDS and one.asked.evidence[_best(one.scores)].any()]
        idle = [best for one, best in here if one.condition != NEEDS]
        record[filler] = {
            f"{least:g}": {name: [sum(bool(best.max() >= least) for best in some), len(some)]
                           for name, some in (("needed", needed), ("needless", idle))}
            for least in sorted({*SPOKEN, floor})
        }  # fmt: skip
    return record


def _kinds(samples: Iterable[Sample]) -> list[bool]:
    return sorted({one.is_stretch for one in samples})


def _of_kind(samples: Iterable[Sample], is_stretch: bool, without: int | None = None) -> list[Sample]:
    return [one for one in samples if one.is_stretch == is_stretch and one.fold != without]


def curve(found: Sequence[Measured]) -> dict[str, Any]:
    """Return the bins of relevance, with the share of evidence in each, and the expected calibration error."""
    points = Points.of([one.sample for one in found])
    chance = np.concatenate([one.relevance[_best(one.sample.scores)] for one in found])
    which = np.minimum(np.digitize(chance, EDGES) - 1, len(EDGES) - 2)
    bins = []
    for place in range(len(EDGES) - 1):
        if (weight := points.weight * (which == place)).sum():
            means = [float(np.average(values, weights=weight)) for values in (chance, points.evidence)]
            share = float(weight.sum() / points.weight.sum())
            bins.append(
                {"from": EDGES[place], "to": EDGES[place + 1], "said": means[0], "is": means[1], "share": share}
            )
    return {"bins": _rounded(bins), "error": _error(bins), "error_shown": _error(bins, SHOWN)}


def _error(bins: Sequence[Mapping[str, float]], least: float = 0.0) -> float:
    """Return the expected calibration error: the mean distance of what was said from what is."""
    some = [one for one in bins if one["from"] >= least]
    total = sum(one["share"] for one in some)
    return round(sum(one["share"] * abs(one["said"] - one["is"]) for one in some) / total, 5) if total else 0.0


def _rounded(bins: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    return [{name: round(value, 5) for name, value in one.items()} for one in bins]


def floors(found: Sequence[Measured]) -> dict[str, Any]:
    """Return the simulated recall and tokens at each floor and budget."""
    shown: dict[str, Any] = {}
    for floor in FLOORS:
        rows = np.array([_filled(one, floor) for one in found])
        means = rows.mean(axis=0).round(4).tolist()
        shown["default" if floor is None else f"{floor:g}"] = {
            str(budget): {"recall": means[2 * i], "tokens": round(means[2 * i + 1], 1)}
            for i, budget in enumerate(BUDGETS)
        }
    return shown


def _filled(one: Measured, floor: float | None) -> list[float]:
    """Return the recall and the tokens used at each budget."""
    asked, scores = one.sample.asked, one.sample.scores
    if floor is not None:
        enough = one.relevance >= floor
    else:
        enough = (one.relevance >= WORTH) | _names(one.sample) | one.sample.is_stretch
    costs = asked.lengths / 4 + LABEL
    order = [i for i in np.argsort(PRICE * np.log(costs) - scores, kind="stable").tolist() if enough[i]]
    values = []
    for budget in BUDGETS:
        taken = filled(
            asked, order, costs.tolist(), budget if one.is_known or floor is not None else min(budget, LITTLE)
        )
        tokens = FENCE + float(costs[taken].sum()) + HEADER * len({int(asked.days[i]) for i in taken})
        values += [share(asked, taken) if taken else 0.0, tokens if taken else 0.0]
    return values


def figures(found: Sequence[Measured]) -> dict[str, Any]:
    """Return all that the tables show."""

    def where(test: Callable[[Sample], bool]) -> list[Measured]:
        return [one for one in found if test(one.sample)]

    files = sorted({one.sample.file for one in found if one.sample.part < 0})
    small = {str(size): where(lambda one, size=size: one.units == size and "small" in one.condition) for size in SIZES}  # type: ignore[misc]
    own = {name: where(lambda one, name=name: one.file == name and one.condition == OWN) for name in files}  # type: ignore[misc]
    kinds = {"questions": where(lambda one: not one.is_stretch), "stretches": where(lambda one: one.is_stretch)}
    elsewhere = (FOREIGN, FAR, GENERAL, NONSENSE, ADVERSARIAL)
    asked = {name: where(lambda one, name=name: one.condition == name) for name in elsewhere}  # type: ignore[misc]
    for size in SIZES[:3]:
        asked |= {f"{name} {size}": [one for one in small[str(size)] if one.sample.condition == name]
                  for name in (SMALL, SMALL_FOREIGN)}  # fmt: skip
    return {
        "kinds": {name: curve(some) for name, some in kinds.items() if some},
        "files": {name: curve(some) for name, some in own.items() if some},
        "sizes": {name: curve(some) for name, some in small.items() if some},
        "floors": {name: floors(some) | {"queries": len(some)} for name, some in (own | asked).items() if some},
        "denied": {
            name: round(1 - float(np.mean([one.is_known for one in some])), 4)
            for name, some in (own | asked).items()
            if some
        },
    }


# -- command ----------------------------------------------------------------------------------------------------------


def read_folds(path: Path) -> dict[str, list[Fusion]]:
    """Read the weights by fold of each file, by its checksum."""
    folds = json.loads(path.read_text(encoding="utf-8"))["folds"]
    return {key: [Fusion.from_json(json.dumps({"weights": one})) for one in some] for key, some in folds.items()}


def main(given: Sequence[str] | None = None) -> None:
    """Fit and measure, or put the tables into place."""
    parser = parser_of(PROGRAM, __doc__)
    add = parser.add_argument
    add("--data", type=Path, nargs="+", default=[], metavar="FILE", help="haystacks: JSON lines, also gzip'd")
    add("--moments", type=Path, metavar="FILE.json", help="prompts that need something, and prompts that need nothing")
    add("--folds", type=Path, default=FOLDED, metavar="FOLDS.json", help="weights fitted without each haystack")
    add("--out", type=Path, default=PUBLISHED, metavar="RELEVANCE.json", help="default: the published numbers")
    add("--curve", type=Path, default=CURVE, metavar="RESULTS.json", help="default: in benchmarks/results")
    args = parser.parse_args(given)
    try:
        if args.data:
            paths = sorted(args.data, key=lambda path: path.name)
            every = [*samples(paths, read_folds(args.folds))]
            if args.moments:
                runs = [one for path in paths for one in read_haystacks(path) if not _asks(one)]
                every += prompts(args.moments, runs)
                paths.append(args.moments)
            numbers = {
                "stretch" if is_stretch else "question": fit(_of_kind(every, is_stretch))._asdict()
                for is_stretch in _kinds(every)
            }
            before, curves = (_read(path) for path in (args.out, args.curve))
            record = before.pop("provenance", {"data": {}})["data"] | {path.name: sha256(path) for path in paths}
            if any(one.asked.signals for one in every):
                numbers["gate"] = {name: one._asdict() for name, one in fit_gates(every).items()}
            found = {name: curves.get(name, {}) | table for name, table in figures(measured(every)).items()}
            if args.moments:
                said = spoken(every)
                numbers["prompts"] = {"floor": floor_of(said)}
                found["prompts"] = speaking(said, numbers["prompts"]["floor"])
            numbers = before | numbers | {"provenance": {"script": PROGRAM, "data": record}}
            args.out.write_text(_text(numbers), encoding="utf-8")
            args.curve.write_text(_text(curves | {"format": "relevance 1"} | found), encoding="utf-8")
        text = tables(json.loads(args.curve.read_text(encoding="utf-8")))
        print(text)
        if args.write or args.check:
            settle(PROGRAM, {PAGE: placed(PAGE.read_text(encoding="utf-8"), text, *MARKS)}, args.write)
    except (TinymemError, InputError, OSError) as error:
        sys.exit(f"{PROGRAM}: {error}")


def _read(path: Path) -> dict[str, Any]:
    """Return the record in a file; none where there is none."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def _text(record: Mapping[str, Any]) -> str:
    return json.dumps(record, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    main()
