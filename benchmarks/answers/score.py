"""Scores files of answers again, from their texts alone.

    python -m benchmarks.answers.score ANSWERS.jsonl... [--summary OUT.summary.json] [--bare BARE.jsonl.gz]
    python -m benchmarks.answers.score BARE.jsonl.gz --data FILE...

Several runs with one reader, of other methods or budgets, are scored as one.

A bare file has the answers without what is from the sets, questions, keys and contexts, so that it can be published
whatever their licences are. With the sets it is scored like the whole one.

An answer is right if every value of the key stands in it, and none that no longer holds: words in any order side by
side, without case, punctuation, articles and the commas of numbers; number words are numbers. It is compared as text: a
right answer in other words counts as wrong, which a judge would not say, and a list of everything that was ever true
as wrong, which many judges call right. Who says that it is not known is never right, but of an adversarial question,
which has no answer.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.answers.stems import stem
from benchmarks.harness.data import Query, lines_of, read_haystacks, set_name
from benchmarks.harness.documents import command_line
from benchmarks.harness.scoring import Row, interval, mean
from benchmarks.harness.summary import circumstances, write_summary
from tinymem.errors import InputError

__all__ = [
    "Agreement", "Group", "agreement", "f1", "groups", "is_refusal", "is_right", "key_place", "locomo_f1",
    "read_answers",
]  # fmt: skip

ADVERSARIAL = "adversarial"
ANSWERED = ("data", "haystack", "query", "method", "budget")  # what an answer is known by
FROM_SETS = ("question", "key", "wrong", "reference", "prompt", "context")  # what a bare line lacks
NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
ARTICLES = {"a", "an", "the"}
REFUSAL = re.compile(
    r"\b(?:unknown|not (?:mentioned|known|available|stated|specified|given|provided|answerable)"
    r"|no (?:information|mention|record|answer)|cannot be (?:known|answered|determined)|(?:do not|don't) know)\b"
)

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """The figures of one method at one budget on one set.

    Attributes:
        data: The set.
        method: The method.
        budget: The most tokens of a context.
        asked: The questions that have an answer, adversarial ones apart.
        keyed: Those of them whose key has strings.
        right: The share of `keyed` that is right by the strings; None without any.
        interval: The 95 % confidence interval of `right`, by a bootstrap over haystacks.
        f1: The mean F1 over words, of `keyed`; by the rules of LoCoMo under that protocol.
        judged: The share that the judge calls right, of those it was asked of; None without a judge.
        tokens: The mean tokens of a context.
        per_thousand: Right answers per 1,000 tokens of context; None without tokens.
        evidence: The mean share of the gold units that stood in the context.
        place: Where the key stood in the contexts that had it, in the mean: 0 is their beginning, 1 their end.
        named: The share of `keyed` whose answer has a value, one that holds or one that held before.
        refused: The share of adversarial questions that were refused; None without any.
    """

    data: str
    method: str
    budget: int
    asked: int
    keyed: int
    right: float | None
    interval: tuple[float, float] | None
    f1: float | None
    judged: float | None
    tokens: float
    per_thousand: float | None
    evidence: float
    place: float | None
    named: float | None
    refused: float | None


@dataclass(frozen=True)
class Agreement:
    """The judge beside the strings: how many answers both were asked of, and where they differ."""

    both: int
    only_judge: int  # right for the judge alone
    only_strings: int  # right for the strings alone
    wrong: int  # by the strings


def words_of(text: str) -> list[str]:
    """The words of a text as they are compared.

    >>> words_of("The 2nd dry run: May 12, 2026, for $1,200.50!")
    ['2', 'dry', 'run', 'may', '12', '2026', 'for', '1200.50']
    """
    plain = unicodedata.normalize("NFKC", text).lower()
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", plain)
    plain = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b", "", plain)
    found = re.findall(r"\d+(?:\.\d+)+|\w+", plain)
    numbered = [str(NUMBERS.index(word)) if word in NUMBERS else word for word in found]
    return [word for word in numbered if word not in ARTICLES] or numbered


def is_right(answer: str, key: Sequence[str], wrong: Sequence[str] = ()) -> bool:
    """True if all values of the key stand in the answer, and beside them none that is wrong."""
    words = words_of(answer)
    for value in key:
        place = _place_of(words_of(value), words)
        if place is None:
            return False
    left = list(words)
    for value in key:
        wanted = words_of(value)
        place = _place_of(wanted, left)
        if place is not None:
            left[place : place + len(wanted)] = [""]
    return all(_place_of(words_of(value), left) is None for value in wrong)


def _place_of(wanted: Sequence[str], words: Sequence[str]) -> int | None:
    """Return where the wanted words stand side by side, in any order."""
    size, sought = len(wanted), sorted(wanted)
    if not size:
        return None
    return next((at for at in range(len(words) - size + 1) if sorted(words[at : at + size]) == sought), None)


def key_place(context: str, key: Sequence[str]) -> float | None:
    """Return where the first value of a key stands in a context, 0 to 1; None if it does not.

    >>> key_place("one two three four", ["three"])
    0.5
    """
    words = words_of(context)
    place = _place_of(words_of(key[0]), words) if key else None
    return None if place is None else place / len(words)


def has_value(line: Line) -> bool:
    """True if a value of the key stands in the answer, or one that held before."""
    words = words_of(line["answer"])
    return any(_place_of(words_of(value), words) is not None for value in (*line["key"], *line["wrong"]))


def is_refusal(answer: str) -> bool:
    """True if the answer says that there is none."""
    return not answer.strip() or REFUSAL.search(answer.lower()) is not None


def f1(answer: str, key: str) -> float:
    """F1 over words, 0 to 1."""
    return _f1(words_of(answer), words_of(key))


def _f1(said: Sequence[str], wanted: Sequence[str]) -> float:
    common = sum((Counter(said) & Counter(wanted)).values())
    return 2 * common / (len(said) + len(wanted)) if common else 0.0


def locomo_f1(answer: str, key: str, type: str) -> float:
    """F1 over stems as LoCoMo has it: item by item in a list, and of an open question's answers the first."""
    if type == "multi-hop":
        said = [stem(part) for part in answer.split(",")]
        return mean([max(_f1(part, stem(wanted)) for part in said) for wanted in key.split(",")])
    wanted = key.split(";")[0] if type == "open-domain" else key
    return _f1(stem(answer), stem(wanted))


def read_answers(path: Path, data: Sequence[Path] = ()) -> list[dict[str, Any]]:
    """The lines of a file of answers; of a bare one with what the sets say.

    A last line that a kill cut off is left out. InputError names a bad line.
    """
    known = {set_name(file.name): queries_in(file) for file in data}
    found = []
    for number, text in enumerate(lines_of(path), 1):
        if not text.endswith("\n"):
            break
        try:
            line = json.loads(text)
            if known:
                query = known[line["data"]][line["haystack"], line["query"]]
                line |= {"question": query.question.text, "key": list(query.key), "wrong": list(query.wrong)}
            _checked(line)
        except (ValueError, KeyError, TypeError) as error:
            advice = "" if known else "; a bare file needs its sets: give --data"
            raise InputError(f"{path.name}, line {number}: not an answer: {error!r}{advice}") from error
        found.append(line)
    return found


def queries_in(path: Path) -> dict[tuple[str, str], Query]:
    """The questions of a set, by haystack and query."""
    found = {}
    for haystack in read_haystacks(path):
        found.update({(haystack.id, query.id): query for query in haystack.queries})
    return found


def _checked(line: Line) -> None:
    for name in (*ANSWERED, "reader", "protocol", "type", "tokens", "evidence", "place", "answer", "key", "wrong"):
        line[name]


def strings_say(line: Line) -> bool | None:
    """The score by strings; None for a question without a key."""
    if line["type"] == ADVERSARIAL:
        return is_refusal(line["answer"]) and is_right(line["answer"], (), line["wrong"])
    if not line["key"]:
        return None
    return is_right(line["answer"], line["key"], line["wrong"]) and not is_refusal(line["answer"])


def judge_says(line: Line) -> bool | None:
    """The judge's verdict; None without one. As in LongMemEval it is a yes if there is a yes in it."""
    judge = line.get("judge")
    return None if judge is None else "yes" in judge["answer"].lower()


def groups(lines: Iterable[Line]) -> list[Group]:
    """The figures of each set, method and budget."""
    found: dict[tuple[str, str, int], list[Line]] = defaultdict(list)
    for line in lines:
        found[line["data"], line["method"], line["budget"]].append(line)
    return [_group(*key, found[key]) for key in sorted(found)]


def _group(data: str, method: str, budget: int, lines: Sequence[Line]) -> Group:
    main = [line for line in lines if line["type"] != ADVERSARIAL]
    apart = [bool(strings_say(line)) for line in lines if line["type"] == ADVERSARIAL]
    keyed = [line for line in main if line["key"]]
    rows = [Row(line["type"], float(bool(strings_say(line))), 0, haystack=line["haystack"]) for line in keyed]
    verdicts = [verdict for verdict in map(judge_says, main) if verdict is not None]
    right = mean([row.value for row in rows]) if rows else None
    tokens = mean([line["tokens"] for line in main])
    return Group(
        data=data,
        method=method,
        budget=budget,
        asked=len(main),
        keyed=len(keyed),
        right=right,
        interval=interval(rows) if rows else None,
        f1=mean([_f1_of(line) for line in keyed]) if keyed else None,
        judged=mean(verdicts) if verdicts else None,
        tokens=tokens,
        per_thousand=1_000 * right / tokens if right is not None and tokens else None,
        evidence=mean([line["evidence"] for line in main]),
        place=_mean_of([line["place"] for line in keyed]),
        named=mean([has_value(line) for line in keyed]) if keyed else None,
        refused=mean(apart) if apart else None,
    )


def _mean_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def _f1_of(line: Line) -> float:
    key = ", ".join(line["key"])
    if line.get("protocol") == "locomo":
        return locomo_f1(line["answer"], key, line["type"])
    return f1(line["answer"], key)


def agreement(lines: Iterable[Line]) -> Agreement | None:
    """The judge beside the strings, on questions with a key; None where there is no judge."""
    pairs = [(strings_say(line), judge_says(line)) for line in lines if line["key"] and line["type"] != ADVERSARIAL]
    both = [(strings, judge) for strings, judge in pairs if judge is not None]
    if not both:
        return None
    only_judge = sum(bool(judge and not strings) for strings, judge in both)
    only_strings = sum(bool(strings and not judge) for strings, judge in both)
    return Agreement(len(both), only_judge, only_strings, sum(not strings for strings, _ in both))


def record_of(lines: Sequence[Line]) -> dict[str, Any]:
    """The figures as JSON values. InputError where answers are of several readers, or twice there."""
    if len({(line["reader"], line["protocol"]) for line in lines}) > 1:
        raise InputError("these answers are of several readers or protocols: score them one by one")
    if len({tuple(line[name] for name in ANSWERED) for line in lines}) < len(lines):
        raise InputError("an answer stands twice in these files: give runs of other methods or budgets")
    beside = agreement(lines)
    first: Line = lines[0] if lines else {}
    return {
        "benchmark": "answers",
        "reader": first.get("reader"),
        "protocol": first.get("protocol"),
        "judge": (first.get("judge") or {}).get("reader"),
        "groups": [asdict(group) for group in groups(lines)],
        "agreement": None if beside is None else asdict(beside),
    }


def _bare(line: Line) -> str:
    kept = {name: value for name, value in line.items() if name not in FROM_SETS}
    if "judge" in kept:
        kept["judge"] = {"reader": kept["judge"]["reader"], "answer": kept["judge"]["answer"]}
    return json.dumps(kept) + "\n"


def main(given: Sequence[str] | None = None) -> None:
    """Score again and print the tables."""
    from benchmarks.answers.table import tables

    parser = command_line("benchmarks.answers.score", __doc__)
    parser.add_argument("answers", type=Path, nargs="+", metavar="ANSWERS.jsonl")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="write the figures here")
    parser.add_argument("--bare", type=Path, metavar="FILE", help="write the answers without what is from the sets")
    parser.add_argument("--data", type=Path, nargs="+", default=(), metavar="FILE", help="the sets of a bare file")
    args = parser.parse_args(given)
    try:
        lines = [line for path in args.answers for line in read_answers(path, args.data)]
        record = record_of(lines)
        print(tables([record]))
        if args.bare is not None:
            with (gzip.open if args.bare.suffix == ".gz" else open)(args.bare, "wt", encoding="utf-8") as file:
                file.writelines(map(_bare, lines))
        if args.summary is not None:
            write_summary(args.summary, {**record, **circumstances()})
    except (InputError, OSError) as error:
        sys.exit(f"benchmarks.answers.score: {error}")


if __name__ == "__main__":
    main()
