"""The benchmark of PostgreSQL beside SQLite: a small run of all of it, and the tables on the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from postgres_server import PostgresServer

pytest.importorskip("psycopg", reason="psycopg is not installed (extra: postgres)")

from benchmarks.harness.summary import read_summary
from benchmarks.stores import run, table


@pytest.mark.slow
def test_a_small_run_measures_both_engines(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINYMEM_CACHE", str(tmp_path / "cache"))
    out, url = tmp_path / "postgres.summary.json", postgres.url()
    work = ["--fill", "40", "400", "--speed", "2", "--writers", "1"]
    run.main(["--url", url, "--folder", str(tmp_path / "sqlite"), "--out", str(out), *work])
    record = read_summary(out)
    (small, large) = record["speed"].values()
    assert small["passages"] >= 40 and large["passages"] >= 400
    assert all(rate > 0 for rate in record["writers"]["adds_a_second"].values())
    assert url not in out.read_text(encoding="utf-8")
    assert "passages, PostgreSQL |" in table.tables(record)
