"""A newer SQLite than that of Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from commands import child_environment

TESTS = Path(__file__).parents[1]
WITH_NEWER_SQLITE = """
import sys, pysqlite3, pysqlite3.dbapi2
assert pysqlite3.sqlite_version_info >= (3, 42)
sys.modules["sqlite3"], sys.modules["sqlite3.dbapi2"] = pysqlite3, pysqlite3.dbapi2
import pytest
sys.exit(pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


@pytest.mark.slow
def test_with_a_newer_sqlite_nothing_else_is_different() -> None:
    pytest.importorskip("pysqlite3", reason="pysqlite3-binary is not installed (extra: test-all)")
    tests = [str(TESTS / name) for name in ("stores/test_fulltext.py", "stores/test_scrubbing.py")]
    done = subprocess.run(
        [sys.executable, "-c", WITH_NEWER_SQLITE, *tests],
        env=child_environment(), cwd=TESTS.parent, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3_000:]
    assert " passed" in done.stdout
