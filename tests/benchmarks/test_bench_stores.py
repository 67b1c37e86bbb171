"""The benchmark of PostgreSQL beside SQLite: a small run of all of it, and the tables on the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from postgres_server import PostgresServer
from test_benchmarks import conversation

pytest.importorskip("psycopg", reason="psycopg is not installed (extra: postgres)")

from benchmarks.harness.summary import read_summary
from benchmarks.stores import run, table


@pytest.mark.slow
def test_a_small_run_measures_both_engines(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TINYMEM_CACHE", str(tmp_path / "cache"))
    out, data = tmp_path / "postgres.summary.json", tmp_path / "talk.jsonl"
    data.write_text(json.dumps(conversation()), encoding="utf-8")
    url = postgres.url()
    work = ["--fill", "400", "--speed", "2", "--writers", "1", "--copy", "1", "--data", str(data)]
    run.main(["--url", url, "--folder", str(tmp_path / "sqlite"), "--out", str(out), *work])
    record = read_summary(out)
    assert record["recall"]["talk.jsonl"]["sqlite"] == record["recall"]["talk.jsonl"]["postgres"] > 0
    assert record["recall"]["talk.jsonl"]["same_ten"] == 1
    assert {engine for one in record["speed"].values() for engine in one if one["passages"] >= 300} >= {
        "sqlite",
        "postgres",
    }
    assert all(
        rate > 0 for rate in [*record["writers"]["adds_a_second"].values(), *record["copy"]["rows_a_second"].values()]
    )
    assert url not in out.read_text(encoding="utf-8")
    assert "| talk.jsonl |" in table.tables(record)
