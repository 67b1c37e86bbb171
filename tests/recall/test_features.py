"""The feature matrix: finite in every case, and each column what it says."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from contract import unit_vectors
from hypothesis import given
from hypothesis import strategies as st
from memories import LATER, START, catalog_of, fill, open_archive, said, sentences
from strategies import MODERATE

from tinymem.embedders.hashing import HashingEmbedder
from tinymem.embedders.static import StaticEmbedder
from tinymem.protocols import Embedder, Vectors
from tinymem.recall.candidates import Candidates
from tinymem.recall.features import ASKED, CALLED, FEW, NAMES, features
from tinymem.recall.query.analysis import Query
from tinymem.recall.query.dates import DAY
from tinymem.recall.query.identifiers import NUMBER, PATH, files_of
from tinymem.recall.query.words import newest_call
from tinymem.recall.search import Search
from tinymem.recall.snapshot import ACT, SAID, Snapshot
from tinymem.steps.step import Step
from tinymem.steps.types import ActionStep, MessageStep

EMBEDDERS: list[Embedder] = [HashingEmbedder(64), StaticEmbedder()]


def matrices_of(folder: Path, steps: Sequence[Step], queries: Iterable[str], embedder: Embedder) -> list[Vectors]:
    archive = open_archive(folder, embedder)
    fill(archive, steps)
    archive.queue.embed_pending()
    found = [Search(archive).score(query, LATER) for query in queries]
    for scored in found:
        assert scored.features.shape == (len(scored.rows), len(NAMES)) and scored.features.dtype == np.float32
        assert np.isfinite(scored.features).all()
        assert np.isfinite([passage.score for passage in scored.ranked(500)]).all()
    archive.journal.close()
    return [scored.features for scored in found]


QUERIES = {
    "plain": "Where is the key of staging?",
    "blank": " \n ",
    "signs": "?!",
    "control": "\x00\ud800",
    "stop words": "the of and",
    "huge": "Where is the key? " * 60_000,
    "huge without a space": "x" * 200_000,
    "lines": "a\nb\nc\nd\ne",
}
MEMORIES: dict[str, list[Step]] = {
    "one step": [said("The key is under the mat.", 1)],
    "no session": [said(text, at) for at, text in enumerate(sentences(30), 1)],
    "sessions": [said(text, at, session=f"s{at % 3}", speaker="Ana") for at, text in enumerate(sentences(30), 1)],
    "empty texts among others": [
        said("", 1), said("a", 2), MessageStep("assistant"), said(" ", 3), said("The key?", 4), ActionStep(None),
    ],
    "one sign each": [said(sign, at) for at, sign in enumerate("?.!\x00\ud800日", 1)],
    "the same over and over": [said("same", at) for at in range(1, 20)],
    "a long one": [said(" ".join(sentences(600)), 1)],
}  # fmt: skip


@pytest.mark.parametrize("embedder", EMBEDDERS, ids=lambda embedder: embedder.name)
@pytest.mark.parametrize("memory", MEMORIES.values(), ids=MEMORIES)
def test_the_matrix_is_finite_whatever_is_asked_of_whatever_is_held(
    tmp_path: Path, memory: list[Step], embedder: Embedder
) -> None:
    is_huge = memory is MEMORIES["sessions"]
    matrices_of(tmp_path, memory, [QUERIES[name] for name in QUERIES if is_huge or "huge" not in name], embedder)


# each column, against slow plain Python


def reference(query: Query, found: Candidates, catalog: Snapshot) -> list[dict[str, float]]:
    rows = found.rows.tolist()
    steps = list(dict.fromkeys(catalog.step.tolist()))
    rows_of = {step: np.flatnonzero(catalog.step == step).tolist() for step in steps}
    session_of = {step: int(catalog.session[rows_of[step][0]]) for step in steps}

    def beside(step: int, by: int) -> int | None:
        at = steps.index(step) + by
        return steps[at] if 0 <= at < len(steps) and session_of[steps[at]] == session_of[step] else None

    def best(signal: Any, step: int | None) -> float:
        return 0.0 if step is None else max(float(signal[row]) for row in rows_of[step])

    tops = [max(1e-6, *signal.tolist()) for signal in (found.cosine, found.bm25)]
    cosine, bm25 = np.maximum(found.cosine / tops[0], -1), found.bm25 / tops[1]
    ordered = sorted(found.cosine[rows].tolist())
    near = 0.0 if query.is_stretch or len(rows) < FEW else ordered[len(ordered) // 10]
    least = -1.0 if query.is_stretch else 0.0
    close = {row: max(least, (float(found.cosine[row]) - near) / max(1e-6, tops[0] - near)) for row in rows}
    base = {row: close[row] + float(bm25[row]) for row in rows}
    words = set(query.text.lower().replace("?", "").split())
    named = {code for name, code in catalog.speakers.items() if name.lower() in words}
    days = (catalog.time // DAY).tolist()
    names = [catalog.identifiers_of(np.array([row]))[0].tolist() for row in range(len(catalog))]
    first = {name: row for row in reversed(range(len(catalog))) for name in names[row]}
    typed = {name for row in range(len(catalog)) if catalog.kind[row] == 1 for name in names[row]}
    shown, files = set(query.identifiers.tolist()), set(files_of(newest_call(query.text)).tolist())

    def hidden(row: int) -> list[int]:
        return [name for name in names[row] if name not in shown and name % 4 != NUMBER] if query.is_stretch else []

    def noted(row: int, of_interest: Callable[[int], bool]) -> float:
        return math.log(1 + sum(of_interest(name) for name in hidden(row)))

    def rarity(name: int) -> float:
        frequency = sum(name in of_row for of_row in names)
        return max(0.0, math.log((len(names) + 1) / (frequency + 0.5)) / math.log(len(names) + 1))

    asked = set(query.named.tolist())
    held = {row: sum(map(rarity, asked & set(names[row]))) for row in rows}

    def called(row: int) -> float:
        kind = catalog.kind[row]
        own = held[row] * (ASKED if kind == ACT or (kind == SAID and catalog.asks[row]) else 1)
        mates = [held[other] for other in rows if catalog.step[other] == catalog.step[row]]
        return max(own, CALLED * max(mates)) if kind not in (ACT, SAID) else own

    def is_of_call(row: int, wanted: set[int], tools: Sequence[int]) -> bool:
        mates = [other for other in rows_of[int(catalog.step[row])] if catalog.kind[other] == ACT]
        return query.is_stretch and any(wanted & set(names[mate]) and catalog.tools[mate] in tools for mate in mates)

    def dated(time: float) -> float:
        gaps = [(max(start - time, time - end, 0.0), end - start) for start, end in query.spans]
        return max((math.exp(-gap / (DAY + length / 4)) for gap, length in gaps), default=0.0)

    def covered(row: int) -> float:
        near = [at for at in range(row - 2, row + 3) if 0 <= at < len(catalog)]
        bits = [int(found.terms[at]) for at in near if catalog.session[at] == catalog.session[row]]
        held = [value for at, value in enumerate(found.rarity.tolist()) if any(one >> at & 1 for one in bits)]
        return (1 - found.unseen) * math.fsum(held) / max(1e-6, math.fsum(found.rarity.tolist()))

    best_step = int(catalog.step[max(rows, key=lambda row: base[row])]) if rows else 0
    expected = []
    for row in rows:
        step = int(catalog.step[row])
        before, after = beside(step, -1), beside(step, 1)
        that_day = sorted((base[other] for other in rows if days[other] == days[row]), reverse=True)
        of_text = [other for other in rows_of[step] if catalog.part[other] == catalog.part[row]]
        size = math.log(min(len(of_text), 32)) if catalog.kind[row] != ACT else 0.0
        later = [other for other in rows_of[step] if catalog.part[other] > 0]
        is_thought = catalog.part[row] == 0 and any(catalog.kind[other] == ACT for other in later)
        expected.append({
            "cosine": close[row], "bm25": float(bm25[row]),
            "coverage": 0.0 if query.is_stretch else covered(row),
            "before_bm25": best(bm25, before),
            "after_cosine": best(cosine, after), "after_bm25": best(bm25, after),
            "answers": best(bm25, before) if before and catalog.asks[rows_of[before][0]] else 0.0,
            "speaker": float(int(catalog.speaker[row]) in named and catalog.kind[row] == 2),
            "reply": float(catalog.reply[row] and (before is None or catalog.kind[rows_of[before][0]] == SAID)),
            "announces": float(catalog.announces[row]),
            "recent": -math.log(1 + steps[-1] - step),
            "now": query.is_of_now * math.log((1 + steps[-1] - best_step) / (1 + steps[-1] - step)),
            "milestone": float(catalog.milestone[row]),
            "dated": dated(float(catalog.time[row])),
            "day": sum(that_day[:3]) / 3,
            "stated": float(found.stated[row]),
            "rule": float(catalog.rule[row] and found.stated[row] > 0),
            "introduces": noted(row, lambda name, row=row: first[name] == row),  # type: ignore[misc]
            "typed_share": sum(name in typed for name in hidden(row)) / max(1, len(hidden(row))),
            "paths": math.log(1 + sum(name % 4 == PATH for name in names[row])) if query.is_stretch else 0.0,
            "call_named": float(is_of_call(row, shown, (-1, 0, 1)) and catalog.kind[row] not in (ACT, SAID)),
            "said_file": float(is_of_call(row, files, [catalog.toolsets.get("Read", -2)])),
            "named": called(row),
            "call": float(catalog.kind[row] == ACT and not is_thought),
            "size": size,
            "text_bm25": float(bm25[of_text].max()),
            "size_bm25": size * float(bm25[of_text].max()),
        })  # fmt: skip
    return expected


CALL = 'a\nRead({"path": "m/app_a.py"})\n'
FILES = files_of("m/app_a.py")


def codes(dice: np.random.Generator, count: int) -> npt.NDArray[np.uint32]:
    """Hashes of identifiers of all classes."""
    found = 1 + dice.choice(60, count, replace=False)  # 0 is none
    known = (4 * found + found % 3).astype("<u4")
    return np.where(found <= len(FILES), FILES[(found - 1) % len(FILES)], known)


@MODERATE
@given(st.data())
def test_each_column_is_what_slow_arithmetic_gives(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 40))
    dice = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    steps = np.cumsum(dice.integers(0, 2, count)) + 3
    of_step = dice.integers(0, 3, steps[-1] + 1)
    kinds = np.array(["message", "reply", "observation", "thought", "announcement", "rule"])
    catalog = catalog_of(
        unit_vectors(count, 8, seed=count),
        steps.tolist(),
        session=[[None, "a", "b"][of_step[step]] for step in steps],
        speaker=[[None, "Ana", "Ben"][value] for value in dice.integers(0, 3, count)],
        kind=kinds[dice.integers(0, 6, count)].tolist(),
        type=["final_answer" if value else "message" for value in dice.integers(0, 2, count)],
        asks=(steps % 2).tolist(),
        time=(START.timestamp() + np.sort(dice.integers(0, int(2 * DAY), count))).tolist(),
        tools=[[None, "Read", "Bash"][value] for value in dice.integers(0, 3, count)],
        identifiers=[codes(dice, int(dice.integers(0, 6))).tobytes() for _ in range(count)],
    )
    text = data.draw(st.sampled_from(["What did Ana say?", "What holds now?", "What?", "a\nb\nnow\nben\nd", CALL]))
    vectors = unit_vectors(1, 8, seed=7)
    asked = codes(dice, 10)
    query = Query(
        text,
        vectors,
        LATER,
        asked,
        asked[:5],
        tuple((START.timestamp() + at, START.timestamp() + at + DAY) for at in dice.integers(-86_400, 5 * 86_400, 2)),
        is_stretch="\n" in text,
    )
    bm25 = (dice.random(count) * dice.integers(0, 2, count)).astype(np.float32)
    rows = np.flatnonzero(dice.integers(0, 4, count))
    terms, rarity = dice.integers(0, 8, count).astype(np.uint32), dice.random(3).astype(np.float32)
    stated = (dice.random(count) * dice.integers(0, 2, count)).astype(np.float32)
    signals = catalog.vectors @ vectors[0], bm25, terms, rarity, float(dice.random()), stated
    found = Candidates(rows, *signals, catalog.rows_with(query.named))
    matrix = features(query, found, catalog)
    expected = reference(query, found, catalog)
    assert matrix.shape == (len(rows), len(NAMES))
    for line, values in zip(matrix.tolist(), expected, strict=True):
        assert dict(zip(NAMES, line, strict=True)) == pytest.approx(values, abs=2e-5, rel=2e-4)


@pytest.mark.parametrize(
    ("speakers", "question", "named"),
    [
        (["王丽", "王", "Bob"], "昨天王丽去了哪里？", [1, 0, 0]),
        (["김철수", "王", "Bob"], "김철수가 어디에 갔어요?", [1, 0, 0]),
        (["Muhammad Khan", "Bo"], "Where does Mohammed live?", [1, 0]),
        (["Muhammad Khan", "Bo"], "Where is Monika?", [0, 0]),
    ],
)
def test_a_speaker_is_known_by_a_name_spelled_otherwise_or_without_spaces_around(
    tmp_path: Path, speakers: list[str], question: str, named: list[int]
) -> None:
    steps: list[Step] = [said(f"我去了{at}", at, speaker=speaker) for at, speaker in enumerate(speakers, 1)]
    (matrix,) = matrices_of(tmp_path, steps, [question], EMBEDDERS[0])
    assert matrix[:, NAMES.index("speaker")].tolist() == named


OF_NOW = {
    "What is our current limit?": True, "As of July, who signs?": True, "Was ist heute das Limit?": True,
    "What was the limit in May?": False, "Now run the tests.": False, "It is 300 from now on.": False,
    "a\nb\nnow\nc": False, "My trips, from first to latest?": False,
}  # fmt: skip


def test_asked_for_what_holds_now_the_newest_comes_first(tmp_path: Path) -> None:
    steps: list[Step] = [said(f"The limit of orders is {at} crates.", at) for at in range(1, 20)]
    for matrix, of_now in zip(matrices_of(tmp_path, steps, OF_NOW, EMBEDDERS[0]), OF_NOW.values(), strict=True):
        now, recent = (matrix[:, NAMES.index(name)] for name in ("now", "recent"))
        assert now.argmax() == recent.argmax() if of_now else not now.any()
