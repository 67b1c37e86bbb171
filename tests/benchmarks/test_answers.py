"""Answers: the same questions, reader and tokens for several memories, asked of a server that speaks OpenAI's API."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from servers import Answer, OpenAIServer, chat_answer_with, failure

from benchmarks.answers import score
from benchmarks.answers.run import main
from benchmarks.answers.score import is_right, read_answers
from benchmarks.harness.summary import read_summary

HOUSES = 6


def unit(place: int, text: str) -> dict[str, Any]:
    time = f"2025-03-01T10:{place:02}:00Z"
    return {"id": f"u{place}", "speaker": "Ann", "text": text, "timestamp": time, "session": "s"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Warm houses: one fact each, one that changed, one question without a key and one without an answer."""
    units = [unit(house, f"The boiler in house {house} was set to {40 + house} degrees.") for house in range(HOUSES)]
    units.append(unit(HOUSES, "The boiler in house 0 is set to 71 degrees now."))
    queries: list[dict[str, Any]] = [
        {"id": f"q{house}", "text": f"How warm is house {house}?", "type": "fact", "gold": [f"u{house}"],
         "answer": f"{40 + house} degrees"} for house in range(1, HOUSES)
    ]  # fmt: skip
    newest, stale = [{"value": "71", "units": ["u6"]}], [{"value": "40", "units": ["u0"]}]
    queries.append({"id": "changed", "text": "How warm is house 0?", "type": "fact", "gold": ["u6"], "newest": newest,
                    "stale": stale})  # fmt: skip
    queries.append({"id": "open", "text": "Who set the boilers?", "type": "fact", "gold": ["u1"]})
    queries.append({"id": "trap", "text": "How warm is house 99?", "type": "adversarial", "gold": ["u1"]})
    file = tmp_path / "houses.jsonl"
    file.write_text(json.dumps({"id": "houses", "units": units, "queries": queries}) + "\n", encoding="utf-8")
    return file


def reads(body: dict[str, Any]) -> Answer:
    """A reader that finds the newest line about the house it is asked for."""
    prompt = body["messages"][0]["content"]
    if "yes or no" in prompt:
        return chat_answer_with("Yes." if re.search(r"Answer: \d", prompt) else "No.")
    house = re.findall(r"How warm is house (\d+)", prompt)
    found = re.findall(rf"house {house[-1]} \w+ set to (\d+) degrees", prompt) if house else []
    return chat_answer_with(f"{found[-1]} degrees" if found else "unknown")


@pytest.fixture
def server(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> OpenAIServer:
    monkeypatch.setattr("benchmarks.harness.scoring.DRAWS", 50)
    server.chat = reads
    return server


def by_method(out: Path) -> dict[str, Any]:
    record = read_summary(out)
    return {group["method"]: group for group in record["groups"]}


def test_a_run_keeps_every_prompt_and_can_be_scored_again(
    data: Path, server: OpenAIServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "answers.jsonl"
    main(["--data", str(data), "--reader", "openai:m", "--out", str(out), "--methods", "tinymem,recency,whole,none",
          "--budgets", "64", "--judge", "openai:j", "--price", "1:10", "--parallel", "2"])  # fmt: skip
    printed = capsys.readouterr().out
    assert "8 of houses.jsonl; 32 prompts, and as many verdicts: at most" in printed and ", $0." in printed
    lines = read_answers(out)
    sent = {request["messages"][0]["content"] for request in server.requests}
    for line in lines:
        assert line["prompt"][0] + line["context"] + line["prompt"][1] in sent and line["tokens"] <= max(
            64, line["budget"]
        )
    figures = by_method(out)
    assert figures["whole"]["asked"] == 7 and figures["whole"]["keyed"] == 6 and figures["whole"]["evidence"] == 1
    assert figures["whole"]["right"] == 1 and figures["none"]["right"] == 0 and figures["none"]["tokens"] == 0
    assert figures["none"]["refused"] == 1 and figures["tinymem"]["right"] >= 5 / 6 > figures["recency"]["right"]
    assert figures["tinymem"]["per_thousand"] > figures["whole"]["per_thousand"]
    assert len({tuple(line["method"] for line in lines if line["query"] == f"q{house}") for house in range(1, 6)}) > 1
    assert figures["whole"]["place"] > 0.5 > figures["none"]["named"] == 0  # the key's last word of each house
    again, bare = tmp_path / "again.summary.json", tmp_path / "bare.jsonl.gz"
    score.main([str(out), "--summary", str(again), "--bare", str(bare)])
    assert read_summary(again)["groups"] == read_summary(out)["groups"]
    assert capsys.readouterr().out.strip() in printed
    assert "house " not in gzip.decompress(bare.read_bytes()).decode()
    score.main([str(bare), "--data", str(data), "--summary", str(again)])
    assert read_summary(again)["groups"] == read_summary(out)["groups"]
    parts = [tmp_path / "one.jsonl", tmp_path / "other.jsonl"]
    for part, of_part in zip(parts, (lines[:12], lines[12:]), strict=True):
        part.write_text("".join(json.dumps(line) + "\n" for line in of_part), encoding="utf-8")
    score.main([*map(str, parts), "--summary", str(again)])
    assert read_summary(again)["groups"] == read_summary(out)["groups"]
    with pytest.raises(SystemExit, match="an answer stands twice"):
        score.main([str(out), str(parts[0])])
    parts[1].write_text(json.dumps(lines[1] | {"reader": "openai:n"}) + "\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="several readers"):
        score.main([*map(str, parts)])


def test_a_run_that_broke_off_goes_on_and_asks_nothing_twice(data: Path, server: OpenAIServer, tmp_path: Path) -> None:
    out = tmp_path / "answers.jsonl"
    command = ["--data", str(data), "--reader", "openai:m", "--out", str(out), "--methods", "tinymem,none",
               "--budgets", "64"]  # fmt: skip
    server.faults = [lambda body: None] * 3 + [lambda body: failure(400, "broken")]
    with pytest.raises(SystemExit, match="broken"):
        main(command)
    before = len(server.requests)
    main(command)
    prompts = [request["messages"][0]["content"] for request in server.requests]
    assert before == 4 and len(prompts) == 1 + len(set(prompts)) == 1 + len(read_answers(out))
    main(command)
    assert len(server.requests) == len(prompts)


@pytest.mark.parametrize(
    ("answer", "key", "wrong", "right"),
    [
        ("It is May 12, 2026.", ["12 May 2026"], [], True),
        ("the 2nd one costs 1,200 USD", ["1200 USD", "second"], [], False),
        ("two boats", ["2 boats"], [], True),
        ("house 14", ["house 1"], [], False),
        ("It was ice hockey, now pesäpallo", ["pesäpallo"], ["ice hockey"], False),
        ("2,350 USD", ["2350 USD"], ["350 USD"], True),
        ("", ["x"], [], False),
        ("anything", ["!"], [], False),
    ],
)
def test_strings_are_compared_word_by_word(answer: str, key: list[str], wrong: list[str], right: bool) -> None:
    assert is_right(answer, key, wrong) is right
