"""Costs of embedders: time until the first vector, passages a second, time of a question, RAM, bytes a passage.

    python -m benchmarks.speed.embedders --embedders static,minilm,sentence-transformers:PATH [--turns N] [--quick]

Each embedder is measured in processes of its own, several times, in turns, so that whatever else the machine does hits
all of them; what is written are medians. Passages and questions are made from a seed (benchmarks/speed/steps.py) and
the same for all: batches of 256 passages, as a memory embeds them, cut as it cuts them, and single questions of ten
words. A GPU is used where a model finds one; `openai:NAME` needs a key, and is charged.

The figures go to benchmarks/results/embedders.json by default, and from there, with those of recall,
`python -m benchmarks.speed.embedders_table --write` puts them into benchmarks/tables/speed.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.harness.summary import FORMAT, circumstances, shown_adapter
from benchmarks.speed.embedders_table import RESULTS, costs
from benchmarks.speed.run import environment, medians
from benchmarks.speed.steps import Corpus, questions
from tinymem.archive.embedding import BATCH
from tinymem.recall.passages import passages_of

__all__ = ["EFFORTS", "main"]


@dataclass(frozen=True)
class Effort:
    """The amount of work: batches of passages, questions, and turns of each embedder."""

    batches: int
    questions: int
    turns: int


EFFORTS = {"full": Effort(8, 200, 5), "quick": Effort(1, 3, 1)}


def measure(names: Sequence[str], effort: Effort) -> dict[str, Any]:
    """All figures of all embedders, and of the texts that they got."""
    texts = made(effort)
    turns: dict[str, list[Any]] = {name: [] for name in names}
    for _ in range(effort.turns):
        for name in names:
            turns[name].append(child(name, texts))
    passages = [text for batch in texts["batches"] for text in batch]
    return {
        "passages": len(passages),
        "characters": round(mean(map(len, passages))),
        "embedders": [{"embedder": shown_adapter(name), **medians(found)} for name, found in turns.items()],
    }


def made(effort: Effort) -> dict[str, Any]:
    """Batches of passages, and questions about them."""
    count = BATCH * effort.batches
    passages = (passage.text for step in Corpus().steps(count) for passage in passages_of(step))
    texts = list(islice(passages, count))
    batches = [texts[at : at + BATCH] for at in range(0, count, BATCH)]
    return {"batches": batches, "questions": questions(texts, effort.questions)}


def child(name: str, texts: dict[str, Any]) -> Any:
    """Run a measuring process, and return its output."""
    command = [sys.executable, "-m", "benchmarks.speed.embedders_worker", name]
    done = subprocess.run(
        command, input=json.dumps(texts), capture_output=True, text=True, env=environment(), check=False
    )
    if done.returncode:
        sys.exit(f"benchmarks.speed.embedders: {name} failed\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.embedders",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--embedders", type=names, default=("static", "hashing"), metavar="NAME,NAME", help="default: static,hashing")
    add("--out", type=Path, default=RESULTS / "embedders.json", metavar="FILE", help="the file to write")
    add("--turns", type=int, metavar="N", help=f"measurements of each embedder (default: {EFFORTS['full'].turns})")
    add("--quick", action="store_true", help="little of everything, once: to see whether it runs")
    return parser.parse_args(given)


def names(text: str) -> tuple[str, ...]:
    """The embedders in `text`, each once."""
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if not all(found):
        raise ValueError("an embedder without a name")
    return found


def main(given: Sequence[str] | None = None) -> None:
    """Measure, write, print."""
    args = arguments(given)
    name = "quick" if args.quick else "full"
    effort = replace(EFFORTS[name], turns=args.turns or EFFORTS[name].turns)
    record: dict[str, Any] = {"benchmark": "embedders", "effort": name, "turns": effort.turns, **circumstances()}
    load = os.getloadavg()[0]
    record |= measure(args.embedders, effort)
    record["load"] = [round(load, 2), round(os.getloadavg()[0], 2)]
    args.out.write_text(json.dumps({"format": FORMAT, **record}, indent=1) + "\n", encoding="utf-8")
    print(costs(record))


if __name__ == "__main__":
    main()
