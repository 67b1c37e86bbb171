"""Other memories in processes of their own: Chroma as this interpreter has it, and peers that cannot be measured."""

from __future__ import annotations

import importlib.util
import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import scoring
from benchmarks.harness.data import read_haystacks
from benchmarks.harness.methods import PEERS
from benchmarks.harness.summary import read_summary
from benchmarks.peers import run as peers
from benchmarks.recall import run as recall
from benchmarks.recall import table

BUDGETS = (32, 128)


def conversation() -> dict[str, Any]:
    """What is asked was said once; two lines are the same word for word."""
    said = [f"We talked about the weather, day {day}, and about nothing else." for day in range(20)]
    said[3] = "My sister Clara adopted a parrot called Figaro from the shelter in Lyon."
    said[8] = said[9] = "Thanks!"
    units = [
        {"id": f"u{at}", "speaker": "Ana", "text": text, "timestamp": "2024-03-01T10:00:00", "session": f"s{at // 10}"}
        for at, text in enumerate(said)
    ]
    queries = [{"id": "parrot", "text": " Which parrot did Clara adopt?\n", "type": "single", "gold": ["u3"]}]
    return {"id": "talk", "units": units, "queries": queries}


def agent_run() -> dict[str, Any]:
    """The second query's evidence comes after the cutoff of the first."""
    said = [f"log of shard {at}: moved without errors" for at in range(12)]
    said[2], said[9] = "the vault token is tok-9f27ac31", "the new vault token is tok-550e8400"
    units = [
        {"id": f"u{at}", "speaker": "tool", "text": text, "timestamp": None, "session": None, "tool_call_id": f"c{at}"}
        for at, text in enumerate(said)
    ]
    common = {"text": "vault token", "type": "provenance"}
    early = {"id": "early", "cutoff": 6, "gold": ["u2"], "needle": "tok-9f27ac31", **common}
    late = {"id": "late", "cutoff": 12, "gold": ["u9"], "needle": "tok-550e8400", **common}
    return {"id": "run", "units": units, "queries": [late, early]}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "made.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (conversation(), agent_run())), encoding="utf-8")
    return path


def measured(data: Path, peer: str, out: Path, *more: str) -> Path:
    """Where the results of `peer` are, if there are any."""
    budgets = ",".join(map(str, BUDGETS))
    given = ["--data", str(data), "--budgets", budgets, "--model", "static", "--peers", peer, "--out", str(out)]
    peers.main([*given, *more])
    return out / f"made.{peer}.jsonl"


@pytest.fixture(scope="module")
def chroma(data: Path) -> Path:
    return measured(data, "chromadb", data.parent / "here")


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_peer_in_a_process_of_its_own_gives_what_the_same_store_gives_here(chroma: Path, data: Path) -> None:
    here = data.with_name("dense.jsonl")
    recall.main(["--data", str(data), "--budgets", "32,128", "--method", "dense", "--out", str(here)])
    shown = [[(x["query"], x["budget"], x["tokens"], x["text"]) for x in lines_of(path)] for path in (chroma, here)]
    assert shown[0] == shown[1]
    assert all(0 < line["tokens"] <= line["budget"] and line["latency_ms"] > 0 for line in lines_of(chroma))


def test_evidence_is_found_and_nothing_from_after_the_cutoff(chroma: Path, data: Path) -> None:
    rows = scoring.score(read_haystacks(data), scoring.read_results(chroma))
    assert [row.value for row in rows[128]] == [1.0, 1.0, 1.0] and not any(row.missing for row in rows[32])
    early = [line for line in lines_of(chroma) if line["query"] == "early"]
    assert early and not any("tok-550e8400" in line["text"] for line in early)


def test_the_summary_names_versions_and_no_path_and_becomes_a_row(chroma: Path, data: Path) -> None:
    summary = read_summary(chroma)
    assert summary["peer"] == {"chromadb": version("chromadb")} and summary["embedder"] == "static"
    assert summary["sets"][0]["units"] == 32 and summary["sets"][0]["queries"] == 3
    assert str(data.parent) not in json.dumps(summary)
    row = f"| made, 3 queries | chromadb {version('chromadb')}, static |"
    assert table.tables(table.entries([summary])).count(row) == 4  # with intervals, and costs


@pytest.mark.skipif(importlib.util.find_spec("mempalace") is not None, reason="mempalace is installed here")
def test_a_peer_that_is_not_there_is_reported_beside_the_others(
    chroma: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = measured(data, "mempalace", chroma.parent)
    (failed,) = read_summary(results)["sets"]
    assert "No package metadata was found for mempalace" in failed["failed"] and not results.exists()
    assert "made.jsonl: mempalace: not measured: PackageNotFoundError" in capsys.readouterr().out
    text = table.tables(table.entries(map(read_summary, (results, chroma))))
    assert text.count("mempalace 3.11.0, not measured: PackageNotFoundError") == 1
    assert text.count("chromadb") == 4


@pytest.mark.slow
@pytest.mark.skipif("TINYMEM_PEERS" not in os.environ, reason="TINYMEM_PEERS names no folder for peers' environments")
@pytest.mark.parametrize("peer", PEERS)
def test_every_peer_finds_the_evidence(peer: str, data: Path, tmp_path: Path) -> None:
    results = measured(data, peer, tmp_path, "--envs", os.environ["TINYMEM_PEERS"])
    assert "failed" not in read_summary(results)["sets"][0]
    rows = scoring.score(read_haystacks(data), scoring.read_results(results))
    assert [row.value for row in rows[128]] == [1.0, 1.0, 1.0]
