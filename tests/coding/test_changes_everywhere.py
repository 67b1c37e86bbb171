"""A line that is gone is shown with a mark or not at all, by all ways but summaries, which stand as they were made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from memories import open_memory

from tinymem import HierarchicalMemory
from tinymem.cli.inspector.view import View
from tinymem.runs.hooks.answers import Answers, Asked
from tinymem.steps.types import ActionStep, FinalAnswerStep, MessageStep, ToolCall
from tinymem.upkeep import export_memory, import_memory

FILE = "/w/settings.py"
OLD, NEW = "QUARANTINE_DAYS = 90 # as the auditors ask", "QUARANTINE_DAYS = 30 # as the auditors ask"
LINES = ["import quarantine_policy", "QUARANTINE_BUCKET = 'cellar-cobalt'", OLD, "QUARANTINE_OWNER = 'nora'"]
ASKED = "quarantine bucket days owner policy"
SENT = [{"role": "user", "content": f"{ASKED} in {FILE}?"}]
PROMPT = f"What is the {ASKED} in {FILE}?"


def act(name: str, result: str, **arguments: object) -> ActionStep:
    return ActionStep("", [ToolCall(name, {"file_path": FILE, **arguments}, observation=result)])


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HierarchicalMemory]:
    """A memory of a file that was read, then edited, then left."""
    with open_memory(tmp_path_factory.mktemp("changes") / "memory") as opened:
        opened.archive(
            [
                act("Read", "\n".join(f"{n}\t{line}" for n, line in enumerate(LINES, 1))),
                FinalAnswerStep("The quarantine settings were read."),
                act("Edit", "ok", old_string=OLD, new_string=NEW),
                *(MessageStep("user", f"Shelf {n} has {n * 7} jars of jam.") for n in range(30)),
            ]
        )
        opened.flush()
        yield opened


def hook(memory: HierarchicalMemory) -> str:
    event = {"hook_event_name": "UserPromptSubmit", "prompt": PROMPT, "session_id": "s"}
    answers = Answers(lambda namespace, create: memory)
    return answers.answer(Asked("prompt", event, memory.namespace, ()))


def imported(memory: HierarchicalMemory) -> str:
    folder = Path(str(memory.path)).parent
    export_memory(folder / "memory", folder / "out.jsonl")
    import_memory(folder / "copy", folder / "out.jsonl", embedder="hashing:64")
    with open_memory(folder / "copy") as copy:
        return copy.recall(ASKED, 300).text


WAYS: dict[str, Callable[[HierarchicalMemory], str]] = {
    "recall": lambda memory: memory.recall(ASKED, 300, min_relevance=0).text,
    "items": lambda memory: "\n".join(item.text for item in memory.recall(ASKED, 300, min_relevance=0)),
    "explain": lambda memory: str(memory.explain(ASKED, 60)),
    "open": lambda memory: memory.open(1),
    "context": lambda memory: json.dumps(memory.context(ASKED, max_tokens=1_000).messages),
    "fit": lambda memory: json.dumps(memory.fit(SENT, session="s", max_tokens=1_000).messages),
    "the model's own search": lambda memory: str(memory.tools()[0].call(query=ASKED)),
    "the model's own reading": lambda memory: str(memory.tools()[1].call(id="#1")),
    "hook": hook,
    "an export": imported,
    "the inspector's recall": lambda memory: json.dumps(View(memory).recall(ASKED, 300)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_line_that_is_gone_has_a_mark_or_is_not_shown(memory: HierarchicalMemory, way: str) -> None:
    shown = WAYS[way](memory)
    assert "quarantine" in shown
    assert "= 90" not in shown or "changed by #3" in shown
