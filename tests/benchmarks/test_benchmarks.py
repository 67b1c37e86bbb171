"""The benchmarks: every method end to end on haystacks made here, and the scoring against values worked out by hand."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import scoring
from benchmarks.harness.data import Call, Question, Unit, read_haystacks
from benchmarks.harness.methods import AS_CALLED, METHODS
from benchmarks.recall import lookups
from benchmarks.recall import run as recall
from tinymem.errors import InputError
from tinymem.messages import TiktokenCounter

BUDGETS = (128, 512)
TOPICS = ["weather", "trains", "football", "soup", "gardening", "laundry", "cinema", "bicycles", "coffee", "painting"]


def conversation() -> dict[str, Any]:
    """Two people over three days; what is asked was said early on, and once only."""
    lines = [
        ("Ana", f"Let us talk about {TOPICS[i % 10]} again, item {i}, before the evening gets late.") for i in range(90)
    ]
    lines[4] = ("Ben", "My sister Clara adopted a parrot called Figaro from the shelter in Lyon.")
    lines[7] = ("Ana", "I am allergic to walnuts,\n  so no walnut cake for me.")
    lines[20] = ("Ben", "Some long story. " + "It went on and on without much of a point. " * 40)

    def at(day: int) -> dict[str, str]:
        return {"timestamp": f"2024-03-0{1 + day}T10:00:00", "session": f"s{day}"}

    units = [{"id": f"u{i}", "speaker": who, "text": text, **at(i // 30)} for i, (who, text) in enumerate(lines)]

    def query(name: str, text: str, kind: str, *gold: str, **more: str) -> dict[str, Any]:
        return {"id": name, "text": text, "type": kind, "gold": gold, **more}

    queries = [
        query("parrot", "Which parrot did Clara adopt?", "single", "u4"),
        query("walnuts", "What is Ana allergic to?", "single", "u7", timestamp="2024-03-04T09:00:00"),
        query("both", "Tell me about the parrot Figaro and the walnut cake.", "multi", "u4", "u7"),
        query("trap", "Which dog did Clara adopt?", "adversarial", "u4"),
    ]
    return {"id": "talk", "units": units, "queries": queries}


def agent_run() -> dict[str, Any]:
    """A run with calls (parallel ones, a cutoff between call and result) and a token seen once, early."""
    units: list[dict[str, Any]] = [
        {"speaker": "system", "text": "You are a careful operator of a fleet of servers."},
        {"speaker": "user", "text": "Move the billing database to the new cluster."},
    ]

    def call(name: str, command: str) -> dict[str, str]:
        return {"id": name, "name": "bash", "arguments": json.dumps({"command": command})}

    def turn(number: int, output: str) -> None:
        made = call(f"c{number}", f"cat step-{number}.log")
        units.append({"speaker": "assistant", "text": f"Look at step {number}.", "tool_calls": [made]})
        units.append({"speaker": "tool", "text": output, "tool_call_id": f"c{number}"})

    keys = "spare key material for the staging cluster only. " * 4
    turn(0, f"listing of the vault\n{keys}\nbilling token: tok-9f27ac31\n" + "audited entry. " * 12)
    for number in range(1, 25):
        moved = f"worker {number} moved shard {number * 7} without any errors. "
        turn(number, f"log of {TOPICS[number % 10]}: {moved * 8}")
    calls = [call("p1", "date"), call("p2", "uptime")]
    units.append({"speaker": "assistant", "text": "", "tool_calls": calls})
    units.append({"speaker": "tool", "text": "Mon Mar 4 12:00:00 UTC 2024", "tool_call_id": "p1"})
    split = len(units)
    units.append({"speaker": "tool", "text": "up 41 days, 3 users", "tool_call_id": "p2"})
    end = "The billing token tok-9f27ac31 opened the vault, and the database was moved to the new cluster."
    units.append({"speaker": "exit", "text": end})
    units = [{"id": f"u{i}", "timestamp": None, "session": "s0", **unit} for i, unit in enumerate(units)]
    asked = "I need the billing token of the vault listing now."
    common = {"text": asked, "type": "provenance", "gold": ["u3"], "needle": "tok-9f27ac31"}
    queries = [{"id": "late", "cutoff": split, **common}, {"id": "early", "cutoff": 30, **common}]
    return {"id": "run", "units": units, "queries": queries}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "made.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(haystack) + "\n" for haystack in (conversation(), agent_run()))
    return path


@pytest.mark.parametrize("method", [name for name in METHODS if name != AS_CALLED])
def test_a_method_answers_every_query_within_the_budget_with_what_was_said_before(method: str, data: Path) -> None:
    """Every claim stands in the text, and nothing from after the cutoff is told."""
    out = data.with_name(f"{method}.jsonl")
    recall.main(
        ["--data", str(data), "--budgets", "512,128", "--method", method, "--out", str(out), "--store", "exact"]
    )
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    wanted = [(h["id"], q["id"], b) for h in (conversation(), agent_run()) for q in h["queries"] for b in BUDGETS]
    assert sorted((x["haystack"], x["query"], x["budget"]) for x in lines) == sorted(wanted)
    stacks, count = {haystack.id: haystack for haystack in read_haystacks(data)}, TiktokenCounter().count
    for line in lines:
        assert 0 < count(line["text"]) == line["tokens"] <= line["budget"] and line["latency_ms"] > 0 and line["units"]
        for claim in line["units"]:
            haystack = stacks[line["haystack"]]
            text = haystack.units[haystack.places[claim["id"]]].text
            assert 0 <= claim["start"] <= claim["end"] <= len(text)
            assert scoring.fold(text[claim["start"] : claim["end"]]) in scoring.fold(line["text"])
    run = [line for line in lines if line["haystack"] == "run"]
    assert not any("opened the vault" in line["text"] or "up 41 days" in line["text"] for line in run)
    early = [line for line in run if line["query"] == "early"]
    assert not any("step-15" in line["text"] or "worker 15 " in line["text"] for line in early)


# -- data -------------------------------------------------------------------------------------------------------------


def test_a_method_cannot_see_what_is_for_scoring() -> None:
    seen = {field.name for field in dataclasses.fields(Unit)}
    assert seen == {"speaker", "text", "timestamp", "session", "tool_calls", "tool_call_id"}
    assert {field.name for field in dataclasses.fields(Question)} == {"text", "now"}


# -- scoring ----------------------------------------------------------------------------------------------------------


def test_a_gold_unit_counts_by_its_verified_share() -> None:
    text = "0123456789" * 10
    assert scoring.unit_share(text, [(0, 100)], f"said: {text}") == 1.0
    assert scoring.unit_share(text, [(0, 50)], text[:50]) == 0.5
    assert scoring.unit_share(text, [(0, 30), (20, 60)], text[:60]) == 0.6
    assert scoring.unit_share(text, [(5, 95)], text[5:95]) == 1.0  # nine tenths are the whole
    assert scoring.unit_share(text, [(0, 100)], text[:99]) == 0.0  # a claim that does not stand there
    assert scoring.unit_share("a \n b", [(0, 5)], "x a b y") == 1.0


def test_a_needle_needs_its_own_context() -> None:
    text = "x" * 150 + " needle " + "y" * 150
    assert scoring.needle_found("needle", text, [(50, 260)], text)
    assert not scoring.needle_found("needle", text, [(100, 200)], text)
    assert scoring.needle_found("needle", "a needle", [(0, 8)], "a needle")


def score_of(data: Path, *lines: dict[str, Any]) -> dict[int, list[scoring.Row]]:
    return scoring.score(read_haystacks(data), {(x["haystack"], x["query"], x["budget"]): x for x in lines})


def line(query: str, text: str, *units: str, haystack: str = "talk", budget: int = 100) -> dict[str, Any]:
    claims = [{"id": unit} for unit in units]
    return {"haystack": haystack, "query": query, "budget": budget, "text": text, "units": claims, "latency_ms": 2.0}


def test_figures_by_hand(data: Path) -> None:
    talk, _ = read_haystacks(data)
    parrot = talk.units[4].text
    rows = score_of(
        data, line("parrot", parrot, "u4"), line("both", parrot, "u4"), line("trap", parrot, "u4"),
        line("walnuts", "many words " * 100, "u7"),
    )[100]  # fmt: skip
    found = scoring.figures(rows)
    assert found.recall == pytest.approx((1 + 0 + 0.5 + 0 + 0) / 5)  # walnuts over budget, the run's two missing
    assert found.all == pytest.approx(1 / 5)
    assert (found.adversarial, found.missing, found.over_budget) == (1.0, 2, 1)
    assert (found.latency_p50_ms, found.types["multi"], found.types["missing"]) == (2.0, (0.5, 1), (0.0, 2))
    count = TiktokenCounter().count
    assert found.needed == pytest.approx(2 * count(parrot) / 5) and found.answered == 3 / 5


def test_the_future_may_be_neither_claimed_nor_quoted(data: Path) -> None:
    _, run = read_haystacks(data)
    with pytest.raises(InputError, match="claims u40, from after its cutoff"):
        score_of(data, line("early", "x", "u40", haystack="run"))
    with pytest.raises(InputError, match="quotes u31, from after its cutoff"):
        score_of(data, line("early", run.units[31].text, haystack="run", budget=999))
    path, query = "/" + "folder/" * 12, run.queries[0]
    units = [Unit("assistant", "", tool_calls=(Call("c", "read", json.dumps({"path": path})),)), Unit("tool", path)]
    assert scoring.quoted_future(units, dataclasses.replace(query, cutoff=0), path) == 1
    assert scoring.quoted_future(units, dataclasses.replace(query, cutoff=1), path) is None  # a call said it before


# -- methods ----------------------------------------------------------------------------------------------------------


def test_a_memory_finds_what_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lookups.main(["--out", str(tmp_path / "lookups.jsonl"), "--seed", "11", "--lookups", "48"])
    recall.main(["--data", str(tmp_path / "lookups.jsonl"), "--budgets", "256", "--store", "exact"])
    found = re.search(r"recall@256 ([\d.]+)", capsys.readouterr().out)
    assert found is not None and float(found[1]) > 0.95
