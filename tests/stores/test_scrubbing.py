"""The journal's files after something was removed: nothing of it is left, whatever other processes have in memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from memories import fill, forget, open_archive, python, said, sentences, texts_in

from tinymem import HierarchicalMemory, MessageStep
from tinymem.protocols.settings import UNSCRUBBED

OTHER = """
import sys
from pathlib import Path
from tinymem.stores.sqlite.journal import SqliteJournal
journal = SqliteJournal(Path(sys.argv[1]) / "journal.db")
journal.rows(0, 10)  # pages that it keeps in memory
print("open", flush=True)
sys.stdin.readline()
journal.keep({"other": "x" * 2_000})
journal.close()
"""


def test_another_process_that_has_pages_in_memory_does_not_bring_back_what_is_forgotten(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    fill(archive, [said(text) for text in sentences(200)])
    steps = fill(archive, [said("zyxqvortex wobbles", session=f"cellar-{at}") for at in range(50)])
    archive.queue.embed_pending()
    other = python(OTHER, tmp_path)
    assert other.stdout is not None and other.stdout.readline() == "open\n"
    forget(archive, [step.step_number or 0 for step in steps])
    other.communicate("go\n")
    assert other.returncode == 0
    archive.journal.keep({"mine": "y" * 2_000})
    for name in ("journal.db", "journal.db-wal"):
        found = (tmp_path / name).read_bytes()
        assert not [word for word in (b"zyxqvortex", b"cellar-", b"wobbl") if word in found], name
    archive.close()


@pytest.mark.skipif(os.name != "posix", reason="no such locks on this system")
def test_forgetting_keeps_the_locks_of_the_journal(tmp_path: Path) -> None:
    """Closing a descriptor of the file would release them; then another process could take the log away."""
    archive, second = open_archive(tmp_path), open_archive(tmp_path)
    steps = fill(archive, [said(text) for text in sentences(20)])
    forget(archive, [steps[3].step_number or 0])
    second.close()
    other = python(OTHER, tmp_path)
    assert other.stdout is not None and other.stdout.readline() == "open\n"
    other.communicate("go\n")
    assert (tmp_path / "journal.db-wal").exists(), "the other one was not the last"
    assert len(archive.journal.rows()) == 19
    archive.close()
    assert not (tmp_path / "journal.db-wal").exists()


def replaced(memory: HierarchicalMemory) -> None:
    """Put a value, and another one in its place."""
    for text in ("The port is zyxqvortex.", "The port is 8443."):
        memory.add_steps([MessageStep("user", text, id="port")], on_conflict="replace")


def test_what_is_replaced_is_in_no_file_of_a_journal_that_was_closed(tmp_path: Path) -> None:
    with HierarchicalMemory(tmp_path, store="exact") as memory:
        replaced(memory)
        assert memory.long_term.journal.setting(UNSCRUBBED), "nobody waits for it"
        assert [step.text for step in memory.steps] == ["The port is 8443."]
    assert not any(texts_in(tmp_path, b"zyxqvortex", b"vortex").values())
