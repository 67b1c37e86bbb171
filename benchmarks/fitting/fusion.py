"""Fits the weights of the linear fusion, tinymem/data/fusion.json, and shows what they are worth by cross-validation.

    python -m benchmarks.fitting.fusion --data FILE... [--embedder NAME...] [--out tinymem/data/fusion.json]
        [--folds benchmarks/results/fusion.folds.json]

Method: listwise learning to rank. The candidates of a query are scored linearly, a softmax over them is the chance of
each to be picked, and the loss is the cross-entropy to the evidence, spread evenly (ListNet's top-one loss: Cao, Qin,
Liu, Tsai, Li, Learning to Rank: From Pairwise to Listwise Approach, 2007). Where any passage with the needle will do,
it is minus the logarithm of the chance that one of them is picked. Each file has the same say. Adam, full batches.

Questions and stretches of agents' runs have a row of weights each, fitted on their own; a row that no file has queries
for stays as it is in `--out`, with its provenance. Each embedder has a row for questions, fitted on the files as they
are found with it. Where several are named, the row "other" is fitted on what all of them find, for embedders without a
row; one with an argument, such as openai:NAME, has a say in that row only. Stretches are fitted with the embedder
"static" only, and so is what counts who speaks and when: the other rows take these weights, of all haystacks.

What is known beforehand is not left to the data: evidence never speaks against a passage (but in a stretch, where a
passage is weighed against the rest of its text, that of the best there may); what an agent did is weighed as what its
tools gave back, but for a bias; and biases are moved so that evidence has a mean score of 0.

The published weights are fitted on all haystacks. What they are worth is measured in two folds: weights that are fitted
on every other haystack of each file are asked for the rest, and the other way round. A file with one haystack is held
out wholly, and with it every file that shares a query with it. These weights are written too, for `benchmarks.recall
--weights`. The figures here are simulated (see `fitting.evidence`); those of a file without it are of weights fitted on
all the other files.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tinymem
from benchmarks.fitting.evidence import BUDGETS, FOLDS, UNFITTED, Asked, DataFile, collect, mean_recall, report
from benchmarks.harness.documents import command_line
from benchmarks.harness.summary import shown_adapter
from tinymem import TinymemError
from tinymem.errors import InputError
from tinymem.recall.features import FEATURES, NAMES
from tinymem.recall.fusion import KIND_NAMES, OTHER, Fusion, name_of_weights
from tinymem.recall.relevance import PRICE

__all__ = ["Settings", "fit", "main"]

PUBLISHED = Path(tinymem.__file__).parent / "data" / "fusion.json"
FOLDED = Path(__file__).parents[1] / "results" / "fusion.folds.json"
TOOL, ACT, SAID, QUESTION = range(len(KIND_NAMES))
STRETCH = (TOOL, ACT, SAID)  # share one row of weights, but for biases
STRAY = 0.1  # of a file's queries: so few of another kind, a question among stretches, have no say
STATIC = "static"  # the embedder that stretches are fitted with
# Features with a weight. For a stretch few, so that they hold for kinds of agents that nobody fitted on; for a question
# those of a stretch are not computed, and a passage answers it or does not, whatever stands in the rest of its step.
OF_STRETCH = (
    "cosine", "bm25", "after_cosine", "recent", "size", "text_bm25", "size_bm25",
    "introduces", "typed_share", "paths", "call_named", "said_file",
)  # fmt: skip
OF_QUESTION = tuple(
    name for name in NAMES
    if name not in OF_STRETCH or name in ("cosine", "bm25", "size")
)  # fmt: skip
OF_SPEAKERS = tuple(name for name in OF_QUESTION if FEATURES[name].family == "who and when" or name == "call")
SIGNED = ("reply", "announces", "now", "milestone", "call", "size")  # these may speak against a passage,
WEIGHED = ("text_bm25", "size_bm25")  # and in a stretch these
SET = ("milestone", "named", "stated", "rule", "now", "said_file")  # features whose weights are `Settings`

NOTHING = Fusion(np.zeros((len(KIND_NAMES), len(NAMES)), np.float32), np.zeros(len(KIND_NAMES), np.float32))
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """Settings of the fit, all of which stand in the provenance."""

    queries: int = 400  # of a file that are trained on, at most,
    stretches: int = 200  # and of stretches
    iterations: int = 250
    rate: float = 0.05
    l2: float = 3e-3  # on weights of features that are scaled to a deviation of 1
    stretch_l2: float = 2e-2  # the runs are few: with less, halves of them give weights that differ by half
    # The weights below are set, because the data has too little to fit them on. Setting them costs nothing in
    # cross-validation.
    milestone: float = 0.5  # few questions are about final answers
    recent: float = 0.08  # the needles of the runs are near; an agent needs what is a hundred steps back, too
    named: float = 8.0  # few questions name a rare identifier
    stated: float = 1.5  # few are asked of an agent's memory for what people said there, and in other words,
    rule: float = 2.0  # and hardly any for a rule
    said_file: float = 1.0  # few agents tell their files apart from their commands
    now: float = 1.0  # of most files few questions ask for what holds now


class Lists:
    """Training queries one after the other: `x` `(n, features)` scaled, and what each candidate ought to get."""

    def __init__(self, files: Sequence[Sequence[Asked]]) -> None:
        queries = [asked for file in files for asked in file]
        sizes = [len(asked.kinds) for asked in queries]
        x = np.concatenate([asked.features for asked in queries])
        x[:, [NAMES.index(name) for name in SET]] = 0
        self.scale = x.std(axis=0) + np.float32(1e-3)
        self.x = x / self.scale
        self.kinds = np.concatenate([asked.kinds for asked in queries])
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.query = np.repeat(np.arange(len(sizes)), sizes)
        self._evidence = np.concatenate([asked.evidence for asked in queries]).astype(np.float64)
        self._any_will_do = np.repeat([asked.any_will_do for asked in queries], sizes)
        weights = np.concatenate([np.full(len(file), 1 / max(1, len(file))) for file in files])
        self._weight = np.repeat(weights / weights.sum(), sizes)

    def residuals(self, scores: Floats) -> Floats:
        """The gradient of the loss by each candidate's score."""
        highest = np.maximum.reduceat(scores, self.starts)
        chance = self._normalised(np.exp(scores - highest[self.query]))
        wanted = np.where(self._any_will_do, chance * self._evidence, self._evidence)
        residuals: Floats = (chance - self._normalised(wanted)) * self._weight
        return residuals

    def _normalised(self, values: Floats) -> Floats:
        totals = np.add.reduceat(values, self.starts)
        normalised: Floats = values / np.maximum(totals, 1e-12)[self.query]
        return normalised


class Adam:
    """Steps of gradient descent, each by the moments of the gradients so far (Kingma and Ba, 2015)."""

    def __init__(self, shape: tuple[int, ...], rate: float) -> None:
        self._mean, self._square = np.zeros(shape), np.zeros(shape)
        self._rate, self._count = rate, 0

    def step(self, gradient: Floats) -> Floats:
        """Return the step to subtract from the parameters."""
        self._count += 1
        self._mean += 0.1 * (gradient - self._mean)
        self._square += 0.001 * (gradient**2 - self._square)
        mean, square = self._mean / (1 - 0.9**self._count), self._square / (1 - 0.999**self._count)
        step: Floats = self._rate * mean / (np.sqrt(square) + 1e-8)
        return step


def fit(
    files: Sequence[Sequence[Asked]], settings: Settings, present: Fusion | None = None, kept: Sequence[str] = ()
) -> Fusion:
    """Weights from the training queries of each file; those of `present` (or zeros) for a row without queries.

    Weights of a question that are `kept` stay those of `present`.
    """
    present = present or NOTHING
    weights, bias = present.weights.astype(np.float64), present.bias.astype(np.float64)
    rows = (STRETCH, OF_STRETCH, settings.stretches), ((QUESTION,), OF_QUESTION, settings.queries)
    for kinds, names, most in rows:
        own = [[asked for asked in file if asked.kinds[0] in kinds] for file in files]
        own = [some for some, file in zip(own, files, strict=True) if len(some) > STRAY * len(file)]
        if own:
            own = [_spread(some, most) for some in own]
            preset = {"milestone": settings.milestone, "recent": settings.recent, "said_file": settings.said_file}
            if kinds == (QUESTION,):
                preset = {name: float(present.weights[QUESTION, NAMES.index(name)]) for name in kept}
                preset |= {name: getattr(settings, name) for name in SET if name in names}
            row, bias[[*kinds]] = _descend(Lists(own), settings, kinds, names, preset)
            weights[[*kinds]] = row
            fusion = Fusion(weights.astype(np.float32), bias.astype(np.float32))
            bias[[*kinds]] -= _mean_of_evidence(fusion, [asked for file in own for asked in file], kinds[0])
    return Fusion(weights.astype(np.float32), bias.astype(np.float32))


def _spread(queries: Sequence[Asked], most: int) -> list[Asked]:
    """At most so many, evenly spaced."""
    count = min(most, len(queries))
    return [queries[i * len(queries) // count] for i in range(count)]


def _descend(
    lists: Lists, settings: Settings, kinds: Sequence[int], names: Sequence[str], preset: Mapping[str, float]
) -> tuple[Floats, Floats]:
    """The weights of one row, and the bias of each of its kinds."""
    fixed = [NAMES.index(name) for name in preset]
    values = np.array([*preset.values()]) * lists.scale[fixed]
    weights, bias = np.zeros(len(NAMES)), np.zeros(len(KIND_NAMES))
    is_question = QUESTION in kinds
    l2 = settings.l2 if is_question else settings.stretch_l2
    signed = SIGNED if is_question else SIGNED + WEIGHED
    positive = [name not in signed for name in NAMES]
    never = [name not in names for name in NAMES]
    of_weights, of_bias = Adam(weights.shape, settings.rate), Adam(bias.shape, settings.rate)
    for _ in range(settings.iterations):
        residuals = lists.residuals(lists.x @ weights.astype(np.float32) + bias[lists.kinds])
        weights -= of_weights.step(residuals.astype(np.float32) @ lists.x + l2 * weights)
        bias -= of_bias.step(np.bincount(lists.kinds, residuals, len(bias)) + l2 * bias)
        weights[positive] = np.maximum(weights[positive], 0)
        weights[never] = 0
        weights[fixed] = values
    return weights / lists.scale, bias[[*kinds]]


def _mean_of_evidence(fusion: Fusion, queries: Sequence[Asked], kind: int) -> float:
    """Return the mean score of the evidence of one kind, over the queries."""
    chosen = [(asked, asked.evidence & (asked.kinds == kind)) for asked in queries]
    means = [_mean_score(fusion, asked, rows) for asked, rows in chosen if rows.any()]
    return float(np.mean(means)) if means else 0.0


def _mean_score(fusion: Fusion, asked: Asked, rows: npt.NDArray[np.bool_]) -> float:
    return float(fusion.score(asked.features[rows], asked.kinds[rows]).mean())


def rounded(fusion: Fusion) -> Fusion:
    """As the file will have it, so that the figures are those of the file."""
    return Fusion(fusion.weights.round(3), fusion.bias.round(3))


def folded(files: Sequence[DataFile], settings: Settings, present: Fusion, kept: Sequence[str] = ()) -> list[Fusion]:
    """Return the weights for the haystacks of each fold, fitted on the rest."""
    training = [[_outside(file, fold, files) for file in files] for fold in range(FOLDS)]
    return [rounded(fit(some, settings, present, kept)) for some in training]


def _outside(file: DataFile, fold: int, files: Sequence[DataFile]) -> list[Asked]:
    """The training queries of a file outside a fold, without those that some file asks in it."""
    asked = {one.text for other in files if len(other.haystacks) > 1 for one in other.held_out(fold)}
    return [one for one in file.training(fold) if one.text not in asked]


def without(
    file: DataFile, files: Sequence[DataFile], settings: Settings, present: Fusion, kept: Sequence[str] = ()
) -> Fusion:
    """Return the weights that are fitted without a file, and without its queries in other files."""
    asked = {one.text for haystack in file.haystacks for one in haystack}
    others = [other.training() for other in files if other.sha256 != file.sha256]
    return rounded(fit([[one for one in other if one.text not in asked] for other in others], settings, present, kept))


@dataclass(frozen=True)
class Fitted:
    """The weights for an embedder's name: of all haystacks, for each fold, and without each file by its checksum."""

    name: str
    files: tuple[DataFile, ...]
    fusion: Fusion
    folds: tuple[Fusion, ...]
    alone: Mapping[str, Fusion]

    @classmethod
    def of(cls, name: str, files: Sequence[DataFile], settings: Settings, present: Fusion) -> Fitted:
        """Fit them; rows without queries stay those of `present`."""
        if not any(file.training() for file in files):
            raise InputError(f"nothing to fit the weights of {name} on: no query has its evidence among its candidates")
        kept = () if name == STATIC else OF_SPEAKERS
        fusion = rounded(fit([file.training() for file in files], settings, present, kept))
        folds = folded(files, settings, present, kept)
        alone = {file.sha256: file for file in files}
        return cls(name, (*files,), fusion, (*folds,),
                   {key: without(file, files, settings, present, kept) for key, file in alone.items()})  # fmt: skip

    def weights_of(self, file: DataFile) -> Sequence[Fusion]:
        """Return the weights for each fold of a file."""
        return self.folds if len(file.haystacks) > 1 else [self.alone[file.sha256]] * FOLDS

    def held_out(self) -> dict[str, dict[str, Any]]:
        """The figures of each file: cross-validated, and of weights that were fitted without it."""
        return {file.name: self._figures(file) for file in self.files if any(file.haystacks)}

    def _figures(self, file: DataFile) -> dict[str, Any]:
        by_fold = [file.held_out(fold) for fold in range(FOLDS)]
        queries = [asked for some in by_fold for asked in some]
        fusions = [[fusion] * len(some) for some, fusion in zip(by_fold, self.weights_of(file), strict=True)]
        return {
            "queries": len(queries),
            "cosine + bm25": mean_recall(queries, [UNFITTED] * len(queries), 0.0),
            "cross-validated": mean_recall(queries, [*chain(*fusions)]),
            "fitted without it": mean_recall(queries, [self.alone[file.sha256]] * len(queries)),
        }


def found_by(embedders: Sequence[str], paths: Sequence[Path]) -> dict[str, list[DataFile]]:
    """Collect the files with each embedder, by the name of its weights, and for OTHER what all of several found."""
    ordered = sorted(paths, key=lambda path: path.name)
    found = {name_of_weights(embedder): [collect(path, embedder) for path in ordered] for embedder in embedders}
    found = {name: files if name == STATIC else [*map(_questions, files)] for name, files in found.items()}
    if len(found) > 1:
        found[OTHER] = [replace(_questions(file), name=f"{file.name}, {shown_adapter(name)}")
                        for name, files in found.items() for file in files]  # fmt: skip
    return {name: files for name, files in found.items() if ":" not in name}


def _questions(file: DataFile) -> DataFile:
    """Return a file without the stretches that were asked in it."""
    kept = [tuple(asked for asked in some if asked.kinds[:1] == QUESTION) for some in file.haystacks]
    return replace(file, haystacks=tuple(kept))


def described(files: Sequence[DataFile], settings: Settings) -> dict[str, dict[str, Any]]:
    """Return what is to be known of each file, without date and path, so that the same data gives the same."""
    return {
        file.name: {
            "sha256": file.sha256,
            "haystacks": len(file.haystacks),
            "queries": sum(map(len, file.haystacks)),
            "trained_queries": len(_spread(file.training(), settings.queries)),
        }
        for file in files
    }


def rows_with(rows: dict[str, Any], name: str, fusion: Fusion) -> dict[str, Any]:
    """Return rows as `Fusion.from_json` reads them, with those for an embedder's name; STATIC brings the stretches."""
    made: dict[str, Any] = as_rows(fusion)
    questions = {OTHER: made["question"]} | rows.get("question", {}) | {name: made["question"]}
    return made | ({} if name == STATIC else rows) | {"question": questions}


def as_rows(fusion: Fusion) -> dict[str, dict[str, float]]:
    """The weights by kind and feature, those that are not 0."""
    rows = np.column_stack([fusion.weights, fusion.bias]).astype(np.float64).round(3).tolist()
    named = [zip((*NAMES, "bias"), row, strict=True) for row in rows]
    return {kind: {name: value for name, value in row if value} for kind, row in zip(KIND_NAMES, named, strict=True)}


def _lists_on_lines(record: dict[str, Any]) -> str:
    text = json.dumps(record, indent=1, sort_keys=True)
    return re.sub(r"\[[^\[\]{}\"]*\]", lambda found: " ".join(found[0].split()), text) + "\n"


def _read(path: Path) -> dict[str, Any]:
    """Return the record in a file; none where there is none."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def main(given: Sequence[str] | None = None) -> None:
    """Collect, fit, print, write."""
    parser = command_line("benchmarks.fitting.fusion", __doc__)
    add = parser.add_argument
    add("--data", type=Path, nargs="+", required=True, metavar="FILE", help="haystacks: JSON lines, also gzip'd")
    add("--embedder", nargs="+", default=[STATIC], metavar="NAME", help="whose weights to fit (default: %(default)s)")
    add("--out", type=Path, default=PUBLISHED, metavar="FUSION.json", help="default: the published weights")
    add("--folds", type=Path, default=FOLDED, metavar="FOLDS.json", help="default: in benchmarks/results")
    args = parser.parse_args(given)
    settings, record, folds = Settings(), _read(args.out), _read(args.folds).get("folds", {})
    rows, before = record.get("weights", {}), record.get("provenance", {})
    held_out, data = dict(before.get("held_out", {})), dict(before.get("data", {}))
    try:
        for name, files in found_by(args.embedder, args.data).items():
            present = Fusion.from_json(json.dumps({"weights": rows}), STATIC) if rows else NOTHING
            fitted = Fitted.of(name, files, settings, present)
            rows = rows_with(rows, name, fitted.fusion)
            for file in files:
                some = zip(folds.get(file.sha256, [rows] * FOLDS), fitted.weights_of(file), strict=True)
                folds[file.sha256] = [rows_with(row, name, fusion) for row, fusion in some]
            held_out[name] = held_out.get(name, {}) | fitted.held_out()  # of files that are not fitted on now, too
            data |= described(files, settings) if name != OTHER else {}
            print(f"{name}: {report(held_out[name])}")
        provenance = {
            "script": "benchmarks/fitting/fusion.py",
            "version": tinymem.__version__,
            "settings": dataclasses.asdict(settings) | {"price": PRICE, "budgets": list(BUDGETS)},
            "data": data,
            "held_out": held_out,
        }
        args.out.write_text(_lists_on_lines({"provenance": provenance, "weights": rows}), encoding="utf-8")
        args.folds.write_text(_lists_on_lines({"folds": folds}), encoding="utf-8")
    except (TinymemError, OSError) as error:
        sys.exit(f"benchmarks.fitting.fusion: {error}")


if __name__ == "__main__":
    main()
