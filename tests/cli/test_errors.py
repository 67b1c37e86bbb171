"""What commands say to a mistake: one line, or how they are used; the status is 2, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import Run
from commands import tinymem as tinymem  # the fixture

from tinymem import HierarchicalMemory, MessageStep

NONE = "there is no memory at ./memory"
NOBODY = ("--namespace", "nobody")


@pytest.fixture
def kept(tinymem: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A memory in the folder `kept`, a folder `full` of something else, and a file to ingest."""
    with HierarchicalMemory("kept", embedder="hashing", store="exact") as memory:
        memory.add(MessageStep("user", "The ladder is behind the shed."))
    Path("full").mkdir()
    Path("full/thesis.txt").write_text("mine", encoding="utf-8")
    Path("chat.jsonl").write_text('{"role": "user", "content": "Lunch is at noon."}\n', encoding="utf-8")
    return tmp_path / "kept"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["recall", "x"], f"{NONE}: make one with `tinymem ingest FILE --path ./memory`, or give"),
        (["namespaces"], NONE), (["doctor"], NONE), (["inspect"], NONE), (["show"], NONE), (["explain", "x"], NONE),
        (["recall", "x", "--path", "full"], "is not a tinymem memory"),
        (["ingest", "chat.jsonl", "--path", "full"], "is not a tinymem memory"),
        (["ingest", "chat.jsonl", "--embedder", "nix"], "no embedder 'nix'"),
        (["ingest", "chat.jsonl", "--namespace", ""], "namespace"),
        (["ingest"], "say what to ingest: one file or more, - for standard input, or --sample"),
        (["recall", "x", "--path", "kept", *NOBODY], "there is no namespace 'nobody'"),
        (["context", "x", "--path", "kept", "--max-tokens", "2"], "budget of 2"),
        (["get", "7", "--path", "kept"], "no step 7"),
        (["add", " ", "--path", "kept"], "no text"),
        (["forget", "--yes", "--path", "kept"], "say what to forget"),
        (["forget", "--until", "yesterday", "--path", "kept"], "until must be a datetime, or text as"),
        (["forget", "--type", "acton", "--yes", "--path", "kept"], "type must be one of"),
        (["forget", "--everything", "--session", "may", "--path", "kept"], "--everything stands alone"),
        (["retain", "--path", "kept"], "say what to retain"),
        (["retain", "--max-age", "90", "--path", "kept"], "'90' is no age: give a whole number and a unit of m, h, d"),
        (["retain", "--max-bytes", "-1MB", "--path", "kept"], "is no size"),
        (["export", "--path", "kept", *NOBODY], "there is no namespace 'nobody'"),
        (["inspect", "--ask", "Why?", "--path", "kept"], "--ask"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_changes_nothing(tinymem: Run, kept: Path, args: list[str], said: str) -> None:
    done = tinymem(*args)
    assert (done.status, done.out) == (2, "") and said in done.err and len(done.err.splitlines()) == 1
    assert not Path("memory/default/journal.db").exists()
    with HierarchicalMemory(kept) as memory:
        assert memory.stats().steps == 1


@pytest.mark.parametrize(
    "args",
    [
        ["recall"], ["recall", "x", "--max-tokens", "0"], ["recall", "x", "--min-relevance", "2"], ["remember"],
        ["ingest", "nowhere.jsonl"], ["show", "--steps", "-1"],
    ],
)  # fmt: skip
def test_a_wrong_use_shows_the_usage(tinymem: Run, args: list[str]) -> None:
    done = tinymem(*args)
    assert (done.status, done.out) == (2, "") and "Usage" in done.err
