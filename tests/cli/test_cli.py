"""The command `tinymem`: real processes where it matters that they are, its `main` in this process where not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import Run, child_environment, process
from commands import tinymem as tinymem  # the fixture
from memories import START

from tinymem import ActionStep, HierarchicalMemory, MessageStep, Step, __version__
from tinymem.cli.demo import RECORDING

CHAT = [
    {"role": "user", "content": "The staging server is at 10.0.0.7."},
    {"role": "assistant", "content": "Noted."},
    {"role": "user", "content": "Lunch is at noon."},
]


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl"
    path.write_text("".join(json.dumps(message) + "\n" for message in CHAT), encoding="utf-8")
    return path


# -- what everybody sees first


def modules_after(*args: str) -> set[str]:
    """What is imported once the command has run."""
    code = (
        "import sys\nfrom tinymem.cli.main import main\nsys.argv = ['tinymem', *sys.argv[1:]]\ntry:\n    main()\n"
        "except SystemExit:\n    pass\nprint(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *args]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("args", [["--help"], ["recall", "--help"], ["--version"]])
def test_help_is_quick_since_it_imports_little(args: list[str]) -> None:
    """0.2 s of one core, of which Python and typer take 0.15: a command imports what it needs when it runs."""
    loaded = modules_after(*args)
    ours = {name for name in loaded if name.startswith("tinymem.")}
    of_a_memory = ("archive", "embedders", "integrations", "memory", "recall", "stores", "summarizers", "window")
    assert not [name for name in ours if name.split(".")[1] in of_a_memory]
    heavy = ("rich", "numpy", "chromadb", "torch", "sqlite3", "tokenizers", "tiktoken", "asyncio")
    assert loaded.isdisjoint(heavy)


def test_help_lists_what_one_needs_first_in_groups() -> None:
    done = process("--help")
    assert (done.status, done.err) == (0, "")
    groups = re.findall(r"^(\S.*):\n((?:  .*\n)+)", done.out, re.MULTILINE)
    listed = {name: re.findall(r"^  (\w+) ", rows, re.MULTILINE) for name, rows in groups}
    del listed["Options"]
    assert next(iter(listed.items())) == ("Begin here", ["demo", "ingest", "watch", "recall", "context", "show"])
    names = [name for group in listed.values() for name in group]
    assert len(names) == len(set(names)) == 28 and "visualize" not in names
    assert "..." not in done.out.replace("[ARGS]...", "") and "tinymem recall which test was flaky" in done.out


def test_version_and_usage(tinymem: Run) -> None:
    assert tinymem("--version") == (0, f"tinymem {__version__}\n", "")
    done = tinymem()
    assert done.status == 2 and "Usage" in done.out + done.err


# -- the whole way


def test_recall_has_the_filters_of_the_api(tinymem: Run) -> None:
    with HierarchicalMemory("memory") as memory:
        memory.add(MessageStep("user", "The staging server is red.", speaker="Ann", session="may", timestamp=START))
        memory.add(MessageStep("user", "The staging server is blue.", speaker="Bob", session="june"))
        memory.add(ActionStep("Paint.", tool_name="paint", tool_args={"what": "staging server"}, observation="done"))
    for options, number in (
        (["--speaker", "Ann"], 1),
        (["--session", "may"], 1),
        (["--until", "2025-03-02"], 1),
        (["--since", "2025-03-02", "--type", "message"], 2),
        (["--tool", "paint"], 3),
        (["--type", "action"], 3),
    ):
        found = json.loads(tinymem("recall", "staging", "server", *options, "--json").out)
        assert {item["step"] for item in found["items"]} == {number}, options


def test_recall_has_the_limits_of_the_api(tinymem: Run, chat: Path) -> None:
    tinymem("ingest", str(chat))
    ask = "recall", "Where is the staging server?", "--json"
    every = json.loads(tinymem(*ask, "--min-relevance", "0").out)["items"]
    assert len(every) == 3 and all(0 <= item["relevance"] <= 1 for item in every)
    found = json.loads(tinymem(*ask, "-k", "1", "--max-tokens", "80").out)
    (best,) = found["items"]
    assert found["tokens"] <= found["budget"] == 80 and (best["step"], best["session"]) == (1, "chat.jsonl#1")
    assert "10.0.0.7" in best["text"] and best["relevance"] == max(item["relevance"] for item in every)
    none = tinymem("recall", "staging", "--min-relevance", "0.999")
    assert (none.status, none.out) == (0, "") and "Nothing found" in none.err


def test_get_opens_a_step_whole(tinymem: Run) -> None:
    text = "word " * 3_000
    with HierarchicalMemory("memory") as memory:
        step = memory.add(ActionStep("Look.", tool_name="cat", observation=text, session="may", timestamp=START))
    by_number, by_id = tinymem("get", "1"), tinymem("get", step.id)
    assert by_number == by_id and text in by_id.out and by_id.out.startswith("[thought]\nLook.\n\n[call]\n")
    assert by_id.err == f"step 1, action, may, 2025-03-01 12:00 UTC, id {step.id}\n"
    assert Step.from_dict(json.loads(tinymem("get", "1", "--json").out)) == step


def test_ingesting_twice_is_ingesting_once(tinymem: Run, chat: Path) -> None:
    assert "Added 3 steps of 1 run in" in tinymem("ingest", str(chat)).out
    chat.write_text(chat.read_text("utf-8") + '{"role": "assistant", "content": "\\ud800 X41"}\n', encoding="utf-8")
    assert "Added 1 step of 1 run (3 were added before) in" in tinymem("ingest", str(chat)).out
    done = tinymem("ingest", str(chat), "--json")
    assert json.loads(done.out)["files"][0] | {"file": ""} == {
        "file": "", "runs": 1, "steps": 0, "known": 4, "error": None, "left_out": {},
    }  # fmt: skip
    assert "X41" in tinymem("recall", "X41").out, "a lone surrogate is printed somehow"
    assert "HierarchicalMemory: 4 steps" in tinymem("show").out


def test_namespaces_are_listed(tinymem: Run, chat: Path) -> None:
    for name in ("b", "Ann & Bob", "a"):
        tinymem("ingest", str(chat), "--namespace", name)
    assert tinymem("namespaces") == (0, "Ann & Bob\na\nb\n", "")
    assert json.loads(tinymem("namespaces", "--json").out) == ["Ann & Bob", "a", "b"]
    for number in range(6):
        tinymem("ingest", str(chat), "--namespace", f"n{number}")
    assert "and 4 more (tinymem namespaces --path memory)" in tinymem("show").err


# -- ingesting what is damaged


def test_ingest_keeps_what_stands_before_the_damage(tinymem: Run, chat: Path) -> None:
    chat.write_text(chat.read_text("utf-8") + '{"role": "user", "cont', encoding="utf-8")
    done = tinymem("ingest", str(chat), "--sample")
    assert done.status == 0 and f"Added {3 + 179} steps of 2 runs" in done.out
    assert done.err.endswith("chat.jsonl: left out: damaged line 4\n") and len(done.err.splitlines()) == 1
    assert "10.0.0.7" in tinymem("recall", "staging", "--max-tokens", "100").out
    done = tinymem("ingest", str(chat), "--json")
    result = json.loads(done.out)
    assert done.status == 0 and [(one["runs"], one["known"]) for one in result["files"]] == [(1, 3)]
    assert result["files"][0]["left_out"] == {"damaged line 4": 1} and result["memory"]["steps"] == 182


def test_a_damaged_memory_names_the_ways_back(tinymem: Run, tmp_path: Path, chat: Path) -> None:
    tinymem("ingest", str(chat))
    journal = tmp_path / "memory" / "default" / "journal.db"
    journal.write_bytes(bytes(100) + journal.read_bytes()[100:])
    asked = tinymem("recall", "staging")
    assert (asked.status, asked.out) == (1, "")
    assert "backup" in asked.err and "export" in asked.err and "sqlite3 journal.db .recover" in asked.err


# -- damaged memories


# -- processes


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="pipes and terminals of Unix")
def test_a_reader_that_goes_away_is_no_traceback(tinymem: Run, tmp_path: Path) -> None:
    assert tinymem("ingest", str(RECORDING), "--path", "mem").status == 0
    command = [sys.executable, "-m", "tinymem.cli", "recall", "loans", "--path", "mem", "--max-tokens", "20000"]
    reader, writer = os.pipe()
    os.close(reader)  # nobody will ever read
    env = child_environment()
    done = subprocess.run(command, cwd=tmp_path, env=env, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
