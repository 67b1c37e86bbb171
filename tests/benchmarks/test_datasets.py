"""Public data sets as haystacks: small files made here, in the formats that were published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets import hashes
from benchmarks.datasets.hashes import read_hashes
from benchmarks.datasets.run import main
from benchmarks.harness.data import read_haystacks
from benchmarks.harness.summary import read_summary

Record = dict[str, Any]
RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def converted(name: str, source: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[Record]:
    """The haystacks of a public file, which the benchmark can read."""
    out = source.parent / "converted.jsonl"
    main([name, "--from", str(source), "--out", str(out), *options])
    assert capsys.readouterr().out
    list(read_haystacks(out))
    return [json.loads(line) for line in out.read_text("utf-8").splitlines()]


def test_locomo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = [
        {"speaker": "Ann", "dia_id": "D1:1", "text": "I paint."},
        {"speaker": "Ben", "dia_id": "D1:2", "text": "Look!", "blip_caption": "a red boat", "img_url": ["x"]},
    ]
    later = [{"speaker": "Ann", "dia_id": "D10:1", "text": "It sold."}]
    talk: Record = {"speaker_a": "Ann", "session_10": later, "session_10_date_time": "1:56 pm on 8 May, 2023"}
    talk |= {"session_1": said, "session_1_date_time": "9:05 am on 1 April, 2023", "session_11_date_time": "unused"}
    asked: list[Record] = [
        {"question": "What sold?", "answer": "It", "evidence": ["D10:1; D1:2"], "category": 1},
        {"question": "Nothing is cited.", "evidence": [], "category": 4},
        {"question": "Cited wrongly?", "adversarial_answer": "x", "evidence": ["D1:1", "D7:9"], "category": 5},
    ]
    source = write(tmp_path / "locomo10.json", [{"sample_id": "conv-26", "conversation": talk, "qa": asked}])
    (one,) = converted("locomo", source, capsys)
    assert [unit["text"] for unit in one["units"]] == ["I paint.", "Look! [image: a red boat]", "It sold."]
    assert [unit["timestamp"] for unit in one["units"]] == ["2023-04-01T09:05:00"] * 2 + ["2023-05-08T13:56:00"]
    assert [unit["session"] for unit in one["units"]] == ["s1", "s1", "s10"]
    assert one["queries"] == [
        {"id": "locomo_0_qa0", "text": "What sold?", "type": "multi-hop", "gold": ["u1", "u2"], "answer": "It"},
        {"id": "locomo_0_qa2", "text": "Cited wrongly?", "type": "adversarial", "gold": ["u0"]},
    ]


def test_the_committed_hashes_are_of_the_sets_in_the_tables() -> None:
    sets = json.loads(hashes.HASHES.read_text("utf-8"))
    assert len(sets) >= 8 and sum(map(len, sets.values())) == len(read_hashes())
    for name, held in sets.items():
        (measured,) = read_summary(RESULTS / f"{name}.tinymem-static.summary.json")["sets"]
        assert measured["haystacks"] == len(held), name
