"""The page on agents: its code runs, over real HTTP, and every name that it gives as tinymem's is one."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import Any

import pytest
from scripted_model import BUDGET, PLACE, calling, in_turn, make_world
from servers import KEY, chat_answer_with, openai_server

import tinymem
from tinymem import HierarchicalMemory
from tinymem.messages import problems

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "agents.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_code_on_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (code,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    with openai_server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        server.chat = in_turn([calling(("system", {}), ("system", {})), chat_answer_with("It is what it is.")])
        names: dict[str, Any] = {"__name__": "page"}
        exec(compile(code, str(PAGE), "exec"), names)
        names["client"].close()
        asked = [body["messages"] for body in server.requests]
    assert capsys.readouterr().out == "It is what it is.\n"
    assert [problems(messages) for messages in asked] == [[], []]
    assert [message["content"] for message in asked[1][-2:]] == [platform.platform()] * 2
    with HierarchicalMemory("memory") as memory:
        assert [step.type for step in memory.short_term.steps[1:]] == [
            "task",
            "action",
            "message",
            "message",
            "message",
        ]


def test_files_that_are_linked_are_there() -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", TEXT)
    assert len(links) >= 2
    assert [link for link in links if "://" not in link and not (PAGE.parent / link).exists()] == []


def test_what_the_page_says_of_the_tests_is_so(tmp_path: Path) -> None:
    said = " ".join(TEXT.split())
    assert f"read {make_world(tmp_path).sheets} sheets" in said
    assert f"prompts of {BUDGET:,} tokens" in said
    assert PLACE == 3 and "the fourth one" in said


def test_names_that_the_page_gives_as_ours_are_ours() -> None:
    part = TEXT[TEXT.index("## If you come from another library") :]
    cells = [row.rpartition("| ")[2] for row in part.replace(" |\n", "\n").splitlines() if row.startswith("| ")]
    names = {name for cell in cells for name in re.findall(r"`([A-Z]\w+)", cell)}
    assert len(names) >= 4 and names <= set(tinymem.__all__)
    intro = part[: part.index("These things differ")]
    calls = re.findall(r"`([A-Z]\w+\([^`]*=[^`]*\))`", intro)
    assert len(calls) >= 4
    for call in calls:
        assert eval(call.replace("...", "'x'"), vars(tinymem) | {n: getattr(tinymem, n) for n in tinymem.__all__})
