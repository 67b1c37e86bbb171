"""`tinymem export`, `import`, `forget`, `retain` and `reindex`."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from commands import Run, before_a_terminal
from commands import tinymem as tinymem  # the fixture
from memories import START, texts_in

from tinymem import ActionStep, HierarchicalMemory, MessageStep
from tinymem.steps.terminal import pluralize


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of 43 steps, with the embedder hashing."""
    folder = tmp_path_factory.mktemp("made") / "memory"
    with HierarchicalMemory(folder, embedder="hashing", store="exact", max_tokens=400) as opened:
        opened.add(MessageStep("user", "The ladder is behind the shed.", speaker="Ann", id="ladder", timestamp=START))
        opened.add(ActionStep("Look.", tool_name="look", observation="nothing", session="may"))
        opened.add(MessageStep("assistant", "zyxqvortex", session="may"))
        opened.archive([MessageStep("user", f"Lot {n} holds {n * 7} crates.", session="june") for n in range(40)])
        opened.scratchpad.observe("It rains.")
    return folder


@pytest.fixture
def memory(tinymem: Run, made: Path, tmp_path: Path) -> Path:
    """A copy of it, in the folder that commands look in."""
    return shutil.copytree(made, tmp_path / "memory")


@pytest.fixture(autouse=True)
def embedder(monkeypatch: pytest.MonkeyPatch, tinymem: Run) -> None:
    monkeypatch.setenv("TINYMEM_EMBEDDER", "hashing")


def steps(tinymem: Run, *options: str) -> int:
    return int(json.loads(tinymem("show", "--json", *options).out)["steps"])


def answering(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


# export and import


def test_a_memory_goes_to_a_file_and_back(tinymem: Run, memory: Path) -> None:
    assert tinymem("export", "memory.jsonl") == (0, "", "Exported 43 steps and 0 episodes.\n")
    done = tinymem("import", "memory.jsonl", "--namespace", "copy")
    assert done.status == 0 and "Imported 43 steps" in done.out and "and the scratchpad into memory" in done.out
    assert tinymem("export", "-", "--namespace", "copy").out == Path("memory.jsonl").read_text(encoding="utf-8")
    assert "behind the shed" in tinymem("recall", "Where is the ladder?", "--namespace", "copy").out


def test_an_export_asks_before_it_overwrites(
    tinymem: Run, memory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_text("mine", encoding="utf-8")
    for answer in ("n\n", ""):  # nobody is there
        answering(monkeypatch, answer)
        done = tinymem("export", "notes.jsonl")
        assert (done.status, done.out) == (1, "") and "notes.jsonl is there already. Overwrite it? [y/N]" in done.err
        assert "Nothing was exported; --force" in done.err and file.read_text("utf-8") == "mine"
    answering(monkeypatch, "y\n")
    assert tinymem("export", "notes.jsonl").status == 0
    written = file.read_text("utf-8")
    file.write_text("mine", encoding="utf-8")
    assert tinymem("export", "notes.jsonl", "--force") == (0, "", "Exported 43 steps and 0 episodes.\n")
    assert file.read_text("utf-8") == written != "mine"


# forget


def test_forgetting_asks_first(tinymem: Run, memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, "n\n")
    done = tinymem("forget", "--session", "may")
    assert done.status == 1 and "Forget 2 steps of namespace 'default' for good? [y/N]" in done.err
    answering(monkeypatch, "")  # nobody is there
    done = tinymem("forget", "--session", "may")
    assert done.status == 1 and "Nothing was forgotten." in done.err
    assert steps(tinymem) == 43
    answering(monkeypatch, "y\n")
    done = tinymem("forget", "--session", "may")
    assert (done.status, done.out) == (0, "Forgot 2 steps.\n")
    assert steps(tinymem) == 41 and texts_in(memory, b"zyxqvortex") == {b"zyxqvortex": []}


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--id", "ladder", "--id", "#1"], 1),
        (["--id", "ladder", "--type", "action"], 2),
        (["--type", "message", "--session", "june"], 40),
        (["--until", "2025-03-01"], 1),
        (["--since", "2025-03-01T12:00:00Z", "--until", "2025-03-01T12:00:00"], 1),
        (["--since", "2025-03-01T12:00:00-01:00", "--until", "2025-12-31"], 0),
    ],
)
def test_what_would_go_is_what_goes(tinymem: Run, memory: Path, options: list[str], count: int) -> None:
    dry = tinymem("forget", *options, "--dry-run")
    assert (dry.status, dry.out, steps(tinymem)) == (0, f"Would forget {pluralize(count, 'step')}.\n", 43)
    done = tinymem("forget", *options, "--yes", "--json")
    assert (json.loads(done.out), steps(tinymem)) == ({"steps": count, "dry_run": False}, 43 - count)


def test_a_namespace_is_forgotten_with_its_folder(tinymem: Run, memory: Path) -> None:
    tinymem("export", "memory.jsonl")
    tinymem("import", "memory.jsonl", "--namespace", "copy")
    everything = ("forget", "--namespace", "copy", "--everything")
    assert "Would remove namespace 'copy' of memory." in tinymem(*everything, "--dry-run").out
    assert (memory / "copy").exists()
    done = tinymem(*everything, "--yes")
    assert (done.status, done.out) == (0, "Removed namespace 'copy' of memory.\n")
    assert not (memory / "copy").exists() and steps(tinymem) == 43
    assert tinymem(*everything, "--yes").status == 2


# retain


def test_retaining_tells_why_and_asks_first(tinymem: Run, memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = ("retain", "--max-age", "4w", "--max-steps", "40")
    with HierarchicalMemory(memory, embedder="hashing", store="exact") as opened:
        opened.archive([MessageStep("user", "Old.", timestamp=START)])
    assert tinymem(*limits, "--dry-run").out == "Would forget 4 steps (1 by max_age, 3 by max_steps); 40 stay.\n"
    answering(monkeypatch, "n\n")
    done = tinymem(*limits)
    assert done.status == 1 and "Forget 4 steps (1 by max_age, 3 by max_steps)? [y/N]" in done.err
    assert steps(tinymem) == 44
    report = json.loads(tinymem(*limits, "--yes", "--json").out)
    assert report["reasons"] == {"max_age": 1, "max_steps": 3} and report["kept"] == steps(tinymem) == 40
    assert [*report["removed"].values()] == ["max_steps"] * 3 + ["max_age"]
    assert tinymem(*limits).out == "Forgot 0 steps; 40 stay.\n"


def test_sizes_and_ages_have_units(tinymem: Run, memory: Path) -> None:
    for size, gone in (("1TB", False), ("999 GB", False), ("1kB", True), ("1", True)):
        report = json.loads(tinymem("retain", "--max-bytes", size, "--dry-run", "--json").out)
        assert bool(report["removed"]) == gone
    for age in ("999999999999999w", "5d"):
        assert tinymem("retain", "--max-age", age, "--dry-run").out == "Would forget 0 steps; 43 stay.\n"


# reindex


# on a terminal


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="terminals of Unix")
def test_progress_is_shown_on_a_terminal_only(tinymem: Run, memory: Path) -> None:
    done = before_a_terminal("reindex", "--embedder", "hashing:64")
    assert done.status == 0 and "reindexing" in done.err
    again = tinymem("reindex", "--embedder", "hashing:32")
    assert again.status == 0 and "reindexing" not in again.err
