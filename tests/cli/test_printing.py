"""What the command prints: nothing that a memory holds, or is called, controls the terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from commands import python_on_a_terminal
from commands import tinymem as tinymem  # the fixture

from tinymem import ActionStep, HierarchicalMemory, MessageStep, TaskStep
from tinymem.cli.main import GROUPS

# a title, a cleared screen, the clipboard (OSC 52), the same in one byte each, a line that is overwritten, a turned one
HOSTILE = "\x1b]0;title\x07 \x1b[2J \x1b]52;c;aGk=\x1b\\ \x9b2J \x9d0;t\x9c safe\rover \u202egnp.exe \x7f"
NAME = "team\x1b[2J\u202e"
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\r(?!\n)")
OURS = re.compile(
    "\x1b\\[[0-9;]*[mK]|\r\x1b\\[K|\r(?=[\x1b ])"
)  # colours and progress, which the command itself writes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a memory, a file to ingest and an exported one, all of them full of control characters."""
    folder = tmp_path_factory.mktemp("hostile")
    with HierarchicalMemory(folder / "mem", namespace=NAME, embedder="hashing:64", store="exact") as memory:
        memory.add(TaskStep(f"Ship {HOSTILE}"))
        for number in range(12):
            call: Any = {
                "tool_name": f"read{HOSTILE}",
                "tool_args": {"file": HOSTILE},
                "observation": f"{number} {HOSTILE}",
            }
            memory.add(ActionStep(f"Look {HOSTILE}", session=f"s{HOSTILE}", speaker=HOSTILE, **call))
        memory.add(MessageStep("user", f"Where is it? {HOSTILE}"))
        memory.export(folder / "exported.jsonl")
    lines = [{"role": "user", "content": HOSTILE}, {"role": HOSTILE, "content": HOSTILE}]
    (folder / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


COMMANDS = {
    "demo": [], "ingest": ["run.jsonl", "--path", "other"], "recall": ["where", "is", "it"], "context": [], "show": [],
    "get": ["#3"], "explain": ["where", "is", "it"], "inspect": ["--html", "x.html"], "namespaces": [],
    "export": ["out.jsonl"], "import": ["exported.jsonl", "--path", "imported"], "forget": ["--session", "nobody"],
    "retain": ["--max-steps", "11"], "doctor": [], "rebuild": [], "reindex": ["--embedder", "hashing:32"],
    "schema": [], "migrate": ["--from", "mem", "--to", "moved"], "scrub": [],
    "replay": ["run.jsonl"], "bench": ["run.jsonl"], "install": ["codex", "--dry-run"],
    "uninstall": ["codex", "--dry-run"], "add": [HOSTILE], "mark": ["#3"], "correct": ["#3", HOSTILE],
}  # fmt: skip
WITHOUT_MEMORY = ("demo", "ingest", "import", "schema", "migrate", "scrub", "replay", "bench", "install", "uninstall")
SERVES = {"mcp", "watch"}  # these run until they are stopped


def test_every_command_is_tried() -> None:
    assert {name for group in GROUPS.values() for name in group} == COMMANDS.keys() | SERVES


ALL_IN_ONE = """
import io, json, sys
from tinymem.cli.main import main
for args in json.load(sys.stdin):
    sys.argv, sys.stdin = ["tinymem", *args], io.TextIOWrapper(io.BytesIO(b"y\\n"))
    try:
        main()
    except SystemExit:
        print("\\nEND OF A COMMAND", flush=True)
"""


@pytest.mark.slow
def test_nothing_printed_controls_a_terminal(folder: Path) -> None:
    calls = [[name, *args] for name, args in COMMANDS.items()]
    for call in calls:
        call += ["--path", "mem"] if call[0] not in WITHOUT_MEMORY else []
        call += ["--namespace", NAME] if call[0] not in (*WITHOUT_MEMORY, "namespaces") else []
    shown = python_on_a_terminal("-c", ALL_IN_ONE, cwd=folder, input=json.dumps(calls)).out.split("END OF A COMMAND")
    for name, out in zip(COMMANDS, shown[:-1], strict=True):
        assert out.strip(), name
        assert "Traceback" not in out, name
        assert CONTROLS.search(OURS.sub("", out)) is None, (name, out[:2_000])
