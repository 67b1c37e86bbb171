"""The same questions, reader and tokens for several memories: what does a language model answer from each?

    python -m benchmarks.answers --data FILE... --reader READER --out ANSWERS.jsonl
        [--methods tinymem,bm25-passages,dense,recency,whole,none] [--budgets 512,1024,4096]

For every question the context of each method within each budget, the answer of the reader, and a score
(benchmarks/answers/score.py). READER is openai:MODEL, anthropic:MODEL or gguf:PATH. Asked are the questions whose file
has an answer (`answer`, `newest`, or the needle that a person asks for), and with --judge the others, whose evidence is
the judge's reference. What the run costs at most is said before it starts; --dry-run ends there. Answers are kept in a
file: the same command goes on after a kill, and pays nothing twice. Every context, prompt and answer stands in
ANSWERS.jsonl.

docs/benchmark.md has an example of a memory of your own, and the commands for the papers' protocols.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from benchmarks.answers.methods import budgets_of, label_of, made
from benchmarks.answers.prompts import PROTOCOLS, Protocol, judge_prompt
from benchmarks.answers.readers import Cached, reader_from
from benchmarks.answers.score import key_place, read_answers, record_of
from benchmarks.answers.table import tables
from benchmarks.harness.data import Haystack, Method, Query, Recalled, read_haystacks, set_name
from benchmarks.harness.documents import command_line
from benchmarks.harness.methods import Setup
from benchmarks.harness.scoring import fold, mean, unit_share
from benchmarks.harness.summary import circumstances, summary_path, write_summary
from benchmarks.recall.run import budgets, progress
from tinymem import TinymemError
from tinymem.errors import InputError
from tinymem.messages import TiktokenCounter

__all__ = ["Plan", "main"]

PROGRAM = "benchmarks.answers"
METHODS = "tinymem,bm25-passages,dense,recency,whole,none"
JUDGED_TOKENS, VERDICT_TOKENS = 300, 10  # of a judge's prompt beside the answer, about, and of its verdict
ADVERSARIAL = "adversarial"
FENCE, STEADY = re.compile(r"\brecalled-\d{12}\b"), "recalled-100200300400"  # its digits depend on a memory's own key


@dataclass(frozen=True)
class Plan:
    """The choices of a run.

    Attributes:
        files: The sets.
        methods: The names of the methods.
        budgets: Tokens of a context.
        window: Tokens of the whole history.
        protocol: The name of the way to ask.
        questions: The most questions of a set, drawn by the seed; None for all.
        limit: The haystacks of each set; None for all.
        seed: What draws questions and shuffles methods.
        embedder: The embedder of the methods that have one.
        judges: A judge is asked, so that questions without a key can be, too.
    """

    files: Sequence[Path]
    methods: Sequence[str]
    budgets: Sequence[int]
    window: int
    protocol: str = "plain"
    questions: int | None = None
    limit: int | None = None
    seed: int = 0
    embedder: str = "static"
    judges: bool = False

    @property
    def asking(self) -> Protocol:
        """The way to ask."""
        return PROTOCOLS[self.protocol]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Each method, by its place, with each of its budgets."""
        by_method = [budgets_of(name, self.budgets, self.window) for name in self.methods]
        return [(place, budget) for place, found in enumerate(by_method) for budget in found]

    def asked(self, path: Path) -> list[tuple[str, str]]:
        """Draw the questions of a file, by haystack and query."""
        found = [
            (haystack.id, query.id)
            for haystack in read_haystacks(path, self.limit)
            for query in haystack.queries
            if self._is_askable(query)
        ]
        if self.questions is None or len(found) <= self.questions:
            return found
        return random.Random(f"{self.seed} {path.name}").sample(found, self.questions)

    def _is_askable(self, query: Query) -> bool:
        if query.type in self.asking.skipped or (query.needle is not None and not query.key):
            return False  # such a query is the window of an agent, no question
        return self.judges or bool(query.key) or query.type == ADVERSARIAL


@dataclass(frozen=True)
class Job:
    """A question with the context of one method at one budget."""

    query: Query
    method: str
    budget: int
    recalled: Recalled
    line: Mapping[str, Any]  # what is written of it beside prompt and answer


def costs(plan: Plan, asked: Mapping[Path, Sequence[tuple[str, str]]], price: tuple[float, float] | None) -> str:
    """Say what a run costs at most: prompts, tokens, and money where a price is given."""
    count = sum(map(len, asked.values()))
    prompts = count * len(plan.pairs)
    template = TiktokenCounter().count(plan.asking.before + plan.asking.after) + 60  # and the question
    read = count * sum(budget + template for _, budget in plan.pairs)
    written = prompts * plan.asking.answer_tokens
    if plan.judges:
        read += prompts * (JUDGED_TOKENS + plan.asking.answer_tokens)
        written += prompts * VERDICT_TOKENS
    sets = ", ".join(f"{len(found)} of {path.name}" for path, found in asked.items())
    judge = ", and as many verdicts" if plan.judges else ""
    text = f"questions: {sets}; {prompts:,} prompts{judge}: at most {read:,} tokens in and {written:,} out"
    if price is None:
        return text
    return f"{text}, ${(read * price[0] + written * price[1]) / 1e6:,.2f}"


def jobs_of(plan: Plan, path: Path, asked: Sequence[tuple[str, str]]) -> Iterator[list[Job]]:
    """Yield the jobs of each question: units go in up to its cutoff, then every method gives its contexts, shuffled."""
    chosen = set(asked)
    for haystack in read_haystacks(path, plan.limit):
        queries = [query for query in haystack.queries if (haystack.id, query.id) in chosen]
        if not queries:
            continue
        with ExitStack() as stack:
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="answers-", ignore_cleanup_errors=True))
            )
            methods = [
                made(name, haystack, Setup(folder / str(place), plan.embedder, agent_run=haystack.is_agent_run))
                for place, name in enumerate(plan.methods)
            ]
            for method in methods:
                stack.callback(method.close)
            yield from _asked_of(plan, path, haystack, queries, methods)


def _asked_of(
    plan: Plan, path: Path, haystack: Haystack, queries: Sequence[Query], methods: Sequence[Method]
) -> Iterator[list[Job]]:
    added = 0
    for query in queries:
        for method in methods if query.cutoff > added else ():
            method.add(haystack.units[added : query.cutoff])
        added = max(added, query.cutoff)
        pairs = plan.pairs
        random.Random(f"{plan.seed} {haystack.id} {query.id}").shuffle(pairs)
        jobs = []
        for place, budget in pairs:
            recalled = with_steady_fence(methods[place].recall(query.question, budget))
            label = label_of(plan.methods[place])
            jobs.append(Job(query, label, budget, recalled, _line(path, haystack, query, recalled)))
        yield jobs


def with_steady_fence(recalled: Recalled) -> Recalled:
    """Return a block with the same digits in its fence in every run, or a kept answer would never be found again."""
    return replace(recalled, text=FENCE.sub(STEADY, recalled.text))


def _line(path: Path, haystack: Haystack, query: Query, recalled: Recalled) -> dict[str, Any]:
    return {
        "data": set_name(path.name),
        "haystack": haystack.id,
        "query": query.id,
        "type": query.type,
        "question": query.question.text,
        "key": list(query.key),
        "wrong": list(query.wrong),
        "tokens": TiktokenCounter().count(recalled.text),
        "evidence": evidence_share(haystack, query, recalled),
        "place": key_place(recalled.text, query.key),
        "reference": list(query.key) or [haystack.units[haystack.places[name]].text for name in query.gold],
    }


def evidence_share(haystack: Haystack, query: Query, recalled: Recalled) -> float:
    """The share of the gold units in a context; where a method makes no claims, whole units are looked for."""
    folded = fold(recalled.text)
    shares = []
    for name in query.gold:
        place = haystack.places[name]
        text = haystack.units[place].text
        claims = [(claim.start, claim.end) for claim in recalled.claims if claim.place == place]
        shares.append(unit_share(text, claims if recalled.claims else [(0, len(text))], folded))
    return mean(shares)


def answered(job: Job, plan: Plan, reader: Cached, judge: Cached | None, own_prompt: str | None) -> dict[str, Any]:
    """Ask the reader, then the judge; return the line."""
    before, after = plan.asking.prompt(job.query, job.recalled.text)
    answer = reader.answer(before + job.recalled.text + after, plan.asking.answer_tokens).strip()
    line = {**job.line, "method": job.method, "budget": job.budget, "protocol": plan.protocol, "reader": reader.name}
    line |= {"prompt": [before, after], "context": job.recalled.text, "answer": answer}
    if judge is None or job.query.type == ADVERSARIAL:
        return line
    reference = "\n".join(line["reference"])
    prompt = judge_prompt(plan.protocol, job.query.type, job.query.question.text, reference, answer, own_prompt)
    verdict = judge.answer(prompt, VERDICT_TOKENS)
    return line | {"judge": {"reader": judge.name, "prompt": prompt, "answer": verdict}}


def answer_all(
    plan: Plan,
    asked: Mapping[Path, Sequence[tuple[str, str]]],
    answer: Callable[[Job], Mapping[str, Any]],
    out: TextIO,
    parallel: int,
) -> None:
    """Write a line for every question, method and budget."""
    total, done = sum(map(len, asked.values())), 0
    with ThreadPoolExecutor(parallel) as pool:
        for path, questions in asked.items():
            for jobs in jobs_of(plan, path, questions):
                for line in pool.map(answer, jobs):
                    out.write(json.dumps(line) + "\n")
                out.flush()
                done += 1
                progress(f"{done} of {total} questions")
    progress("")


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = command_line(PROGRAM, __doc__)
    add = parser.add_argument
    add("--data", type=Path, nargs="+", required=True, metavar="FILE", help="haystacks: JSON lines, also gzip'd")
    add("--reader", required=True, help="openai:MODEL, anthropic:MODEL or gguf:PATH")
    add(
        "--out",
        type=Path,
        required=True,
        metavar="ANSWERS.jsonl",
        help="the file to write; its summary stands beside it",
    )
    add(
        "--methods", default=METHODS, metavar="NAME,NAME", help="also MODULE:CLASS and NAME=FILE (default: %(default)s)"
    )
    add("--budgets", type=budgets, default=(512, 1_024, 4_096), metavar="N,N", help="tokens (default: 512,1024,4096)")
    add(
        "--window", type=int, default=8_000, metavar="N", help="tokens of `whole`, what the model takes (default: 8000)"
    )
    add("--protocol", choices=PROTOCOLS, default="plain", help="prompts and judge of a paper (default: our own)")
    add("--judge", metavar="READER", help="a model that also says whether an answer is right")
    add("--judge-prompt", type=Path, metavar="FILE", help="its prompt, with {question}, {key} and {answer}")
    add("--questions", type=int, metavar="N", help="draw N questions of each file (default: all)")
    add("--limit", type=int, metavar="N", help="only the first N haystacks of each file")
    add("--seed", type=int, default=0, help="draws the questions and the order of methods (default: 0)")
    add("--embedder", default="static", help="of the methods that have one (default: %(default)s)")
    add("--price", type=price, metavar="IN:OUT", help="of a million tokens, to say what the run costs")
    add("--parallel", type=int, default=1, metavar="N", help="requests at a time (default: 1)")
    add("--per-minute", type=int, metavar="N", help="requests a minute, at most")
    add("--cache", type=Path, metavar="FILE", help="where answers are kept (default: OUT.cache.db)")
    add("--dry-run", action="store_true", help="only say what the run would cost")
    return parser.parse_args(given)


def price(text: str) -> tuple[float, float]:
    """The prices of a million tokens that are read, and written."""
    read, _, written = text.partition(":")
    return float(read), float(written)


def main(given: Sequence[str] | None = None) -> None:
    """Say what it costs, ask, score, print."""
    args = arguments(given)
    plan = Plan(
        args.data, args.methods.split(","), args.budgets, args.window, args.protocol, args.questions, args.limit,
        args.seed, args.embedder, args.judge is not None,
    )  # fmt: skip
    try:
        asked = {path: plan.asked(path) for path in plan.files}
        print(costs(plan, asked, args.price))
        if not any(asked.values()):
            raise InputError("no question of these files has a key: give --judge, or files with answers")
        if not args.dry_run:
            _run(args, plan, asked)
    except (TinymemError, OSError) as error:
        sys.exit(f"{PROGRAM}: {error}")


def _run(args: argparse.Namespace, plan: Plan, asked: Mapping[Path, Sequence[tuple[str, str]]]) -> None:
    largest = max(budget for _, budget in plan.pairs)
    cache = args.cache or args.out.with_name(args.out.name + ".cache.db")
    own_prompt = args.judge_prompt.read_text(encoding="utf-8") if args.judge_prompt else None
    made_in = circumstances()
    with ExitStack() as stack:
        reader = Cached(reader_from(args.reader, largest), cache, args.per_minute)
        stack.callback(reader.close)
        judge = Cached(reader_from(args.judge, largest), cache, args.per_minute) if args.judge else None
        if judge is not None:
            stack.callback(judge.close)
        out = stack.enter_context(args.out.open("w", encoding="utf-8"))
        begun = time.perf_counter()
        answer_all(plan, asked, lambda job: answered(job, plan, reader, judge, own_prompt), out, args.parallel)
        seconds = time.perf_counter() - begun
    record = record_of(read_answers(args.out))
    print(tables([record]))
    print(f"{reader.asked} answers were asked for in {seconds:.0f} s; the others were kept in {cache.name}")
    settings = {"window": plan.window, "questions": plan.questions, "limit": plan.limit, "seed": plan.seed}
    write_summary(summary_path(args.out), {**record, **settings, "embedder": plan.embedder, **made_in})


if __name__ == "__main__":
    main()
