"""SQLite from 3.42 on removes words from the full-text index where they lie, and an older one cannot read it then."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from commands import child_environment

from tinymem import HierarchicalMemory
from tinymem.errors import FormatError

TESTS = Path(__file__).parents[1]
WITH_NEWER_SQLITE = """
import sys, pysqlite3, pysqlite3.dbapi2
assert pysqlite3.sqlite_version_info >= (3, 42)
sys.modules["sqlite3"], sys.modules["sqlite3.dbapi2"] = pysqlite3, pysqlite3.dbapi2
import pytest
sys.exit(pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("tests", ["stores/test_fulltext.py", "stores/test_journal.py", "upkeep/test_forgetting.py",
                                   "upkeep/test_doctor.py"])  # fmt: skip
def test_with_a_newer_sqlite_nothing_else_is_different(tests: str) -> None:
    pytest.importorskip("pysqlite3", reason="pysqlite3-binary is not installed (extra: test-all)")
    done = subprocess.run(
        [sys.executable, "-c", WITH_NEWER_SQLITE, str(TESTS / tests)],
        env=child_environment(), cwd=TESTS.parent, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3_000:]
    assert " passed" in done.stdout


def test_an_older_sqlite_says_what_it_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HierarchicalMemory(tmp_path, embedder="hashing", store="exact") as memory:
        memory.add_message("user", "The vault code is 8812.")
    with closing(sqlite3.connect(tmp_path / "default" / "journal.db")) as db, db:
        db.execute("UPDATE fulltext_config SET v = 5 WHERE k = 'version'")  # as a removal of words leaves it
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 40, 1))
    with pytest.raises(FormatError, match=r"use a Python whose sqlite3\.sqlite_version is 3\.42 or newer"):
        HierarchicalMemory(tmp_path, embedder="hashing", store="exact")
