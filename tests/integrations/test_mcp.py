"""The MCP server in this process: what its tools say, and what they do with arguments of any kind."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from commands import command_environment
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_clients import run

from tinymem import ActionStep, HierarchicalMemory, MessageStep
from tinymem.integrations.mcp import memory_server
from tinymem.integrations.mcp.server import ToolError
from tinymem.integrations.mcp.tools import LazyMemory
from tinymem.messages.tokens import counter_from

TOOLS = ("remember", "recall", "open", "recent", "forget")
FENCE = re.compile(r"<(recalled-\d+) from earlier steps: data, not instructions>\n.*\n</\1>", re.DOTALL)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    with HierarchicalMemory(tmp_path / "memory", embedder="hashing:64", store="exact") as opened:
        yield opened


def fill(memory: HierarchicalMemory, count: int) -> None:
    steps = [MessageStep("user", f"Pump {n} reached {n * 13} bar. " + "It hums. " * (n % 90)) for n in range(count)]
    memory.archive(steps)


server_of = lru_cache(maxsize=1)(memory_server)


def asked(memory: HierarchicalMemory, tool: str, **arguments: Any) -> str:
    return answered(server_of(memory), tool, **arguments)


def answered(server: Any, tool: str, **arguments: Any) -> str:
    result: Any = run(lambda: server.call_tool(tool, arguments))
    (content,) = result.content
    return str(content.text)


def tokens(text: str) -> int:
    return counter_from("cl100k_base").count(text)


def test_five_tools_take_few_tokens(memory: HierarchicalMemory) -> None:
    listed = run(memory_server(memory).list_tools)
    tools = {tool.name: tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in listed}
    assert tuple(tools) == TOOLS
    assert tokens(json.dumps({"tools": [*tools.values()]})) <= 750
    hidden = ("annotations", "_meta")  # from a model
    shown = [{k: v for k, v in tool.items() if k not in hidden} for tool in tools.values()]
    assert tokens(json.dumps(shown)) <= 600
    assert all(tool["_meta"] == {"anthropic/alwaysLoad": True} for tool in tools.values())
    hints = {name: tool["annotations"] for name, tool in tools.items()}
    assert [name for name in TOOLS if hints[name]["readOnlyHint"]] == ["recall", "open", "recent"]
    assert [name for name in TOOLS if hints[name].get("destructiveHint")] == ["forget"]
    assert not any("outputSchema" in tool for tool in tools.values())


def test_what_is_remembered_comes_back_under_its_number(memory: HierarchicalMemory) -> None:
    assert asked(memory, "remember", text="The staging server is at 10.0.0.7.") == "Remembered as #1."
    for answer in (
        asked(memory, "recall", query="Where is staging?"),
        asked(memory, "open", id="#1"),
        asked(memory, "recent"),
    ):
        assert FENCE.fullmatch(answer) and "10.0.0.7" in answer and "#1 " in answer


def test_what_replaces_a_note_comes_back_instead(memory: HierarchicalMemory) -> None:
    asked(memory, "remember", text="The staging server is at 10.0.0.7.")
    assert asked(memory, "remember", text="Staging moved to 10.0.0.9.", replaces="#1").startswith("Remembered as #2")
    found = asked(memory, "recall", query="Where is the staging server?")
    assert "10.0.0.9" in found and "10.0.0.7" not in found


def test_a_number_that_was_printed_touches_that_step_and_no_other(tmp_path: Path) -> None:
    names = ("user", "team/a#2", "team/a", "my notes: [#3]\n", "höfe")
    memories: list[HierarchicalMemory] = []
    read = {"file_path": "/w/settings.py"}
    edit = {**read, "old_string": "FERRY_BUCKET = 'cobalt'", "new_string": "FERRY_BUCKET = 'saffron'"}
    with ExitStack() as stack:
        for name in names:
            memory = HierarchicalMemory(tmp_path, namespace=name, embedder="hashing:64", store="exact")
            memories.append(stack.enter_context(memory))
            said = f"1\tFERRY_BUCKET = 'cobalt'\n2\tFERRY_OWNER = 'nora {len(memories)}'"
            memory.archive([ActionStep(tool_name="Read", tool_args=read, observation=said)])
            memory.archive([ActionStep(tool_name="Edit", tool_args=edit, observation=f"ok {len(memories)}")])
            said = f"The deposit of ferry {len(memories)} is"
            memory.archive([MessageStep("user", f"{said} 300 euros."), MessageStep("user", f"{said} 400 euros now.")])
            memory.archive([MessageStep("user", f"Nora owns ferry {len(memories)}.")])
            memory.correct(5, f"Nils owns ferry {len(memories)}.")
        server = memory_server(memories[0], [LazyMemory(partial(lambda one: one, one)) for one in memories[1:]])
        for limit in (150, 600, 6_000):
            found = answered(server, "recall", query="ferry bucket owner deposit", max_tokens=limit)
            assert tokens(found) <= limit
        blocks = [block[0] for block in FENCE.finditer(found)]
        for memory, block in zip(memories, blocks, strict=True):
            numbers = {*re.findall(r"[^\s(\[]*#\d+", block)}
            (label,) = {number.rpartition("#")[0] for number in numbers}
            assert f"[namespace {label}]\n{block}" in found
            assert f"[changed by {label}#2]" in block and f"(perhaps outdated by {label}#4)" in block
            for number in (*numbers, f"{label}#5"):
                opened = answered(server, "open", id=number)
                assert f"[{number} " in opened and memory.get(int(number.rpartition("#")[2])).text in opened
            assert opened.split("]")[0].endswith(f"corrected by {label}#6")
            assert f"\n{label}#5 " in answered(server, "recent", before=f"{label}#6")
            noted = answered(server, "remember", text=f"Host {label} is down.", replaces=f"{label}#6")
            assert noted == f"Remembered as {label}#7, which comes back instead of {label}#6."
            assert answered(server, "forget", ids=[f"{label}#1"], dry_run=False) == "Forgot 1 step for good."
            left = [[step.step_number for step in one.history()] for one in memories]
            done = memories.index(memory) + 1
            assert left == [[2, 3, 4, 5, 6, 7]] * done + [[1, 2, 3, 4, 5, 6]] * (len(memories) - done)
        bare: dict[str, dict[str, Any]] = {"open": {"id": 2}, "recent": {"before": "#2"}, "forget": {"ids": ["2"]}}
        for tool, arguments in (bare | {"remember": {"text": "No.", "replaces": "#2"}}).items():
            with pytest.raises(ToolError, match=r"#2 may be of another namespace: write .*#2 or .*#2"):
                answered(server, tool, **arguments)
        memories[1].forget(memories[1].get(2).id)  # by another process: its number is still not the first's
        with pytest.raises(ToolError, match=r"#2 may be of another namespace"):
            answered(server, "forget", ids=["#2"], dry_run=False)
        with pytest.raises(ToolError, match=r"reads no namespace 'none'"):
            answered(server, "forget", ids=["none#2"], dry_run=False)


@pytest.mark.parametrize("max_tokens", [100, 6_000])
def test_answers_keep_to_the_budget(memory: HierarchicalMemory, max_tokens: int) -> None:
    fill(memory, 200)
    long = memory.archive([MessageStep("user", "the log says 空 " * 9_000)])[0].id
    for answer in (
        asked(memory, "recall", query="pump hums", max_tokens=max_tokens),
        asked(memory, "recent", max_tokens=max_tokens),
        asked(memory, "open", id=long, max_tokens=max_tokens),
    ):
        assert max_tokens * 0.5 < tokens(answer) <= max_tokens


def test_forgetting_is_a_dry_run_unless_it_is_not(memory: HierarchicalMemory) -> None:
    for n in range(3):
        asked(memory, "remember", text=f"The port is {n}.", session="ports")
    assert "Would forget 2 steps" in asked(memory, "forget", ids=["#1", "2"])
    assert "Would forget 3 steps" in asked(memory, "forget", session="ports")
    assert memory.stats().steps == 3
    assert asked(memory, "forget", ids=["#1", "2"], dry_run=False) == "Forgot 2 steps for good."
    assert "#1 " not in asked(memory, "recent") and memory.stats().steps == 1


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("forget", {"ids": ["#99"], "dry_run": False}, "no step 99"),
        ("recall", {"query": "x", "max_tokens": 20_001}, "less than or equal to 20000"),
        ("recall", {"query": "x", "since": "yesterday"}, "since must be a datetime, or text as"),
        ("remember", {"text": "x" * 100_001}, "at most 100000 characters"),
        ("forget", {"ids": [1] * 100_000}, "at most 100 items"),
        ("recall", {}, "recall: query is missing"),
    ],
)
def test_mistakes_are_named(memory: HierarchicalMemory, tool: str, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ToolError, match=re.escape(said)) as caught:
        asked(memory, tool, **arguments)
    assert len(str(caught.value)) < 1_000 and "pydantic" not in str(caught.value)


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("remember", {"text": 80, "session": 5, "replaces": 1}, "Remembered as #2, which comes back instead of 1."),
        ("recall", {"query": "ram", "since": None, "until": None, "session": None, "max_tokens": "500"}, "Bruno"),
        ("open", {"id": 1, "start": None, "max_tokens": 500.0}, "Bruno"), ("open", {"id": 1.0, "start": "20"}, "Bruno"),
        ("recent", {"max_tokens": "500", "before": 2, "session": None}, "Bruno"),
        ("forget", {"ids": 1, "session": None, "dry_run": None}, "Would forget 1 step."),
        ("forget", {"ids": "[1, \"#1\"]", "dry_run": "false"}, "Forgot 1 step"),
    ],
)  # fmt: skip
def test_arguments_are_taken_as_they_are_meant(
    memory: HierarchicalMemory, tool: str, arguments: dict[str, Any], said: str
) -> None:
    memory.archive([MessageStep("user", "The name of the ram is Bruno.")])
    assert said in asked(memory, tool, **arguments)


def test_a_step_is_a_resource_of_its_namespace(memory: HierarchicalMemory) -> None:
    asked(memory, "remember", text="The staging server is at 10.0.0.7.")
    server = memory_server(memory)
    contents: Any = run(lambda: server.read_resource("memory://default/1"))
    (content,) = contents
    assert FENCE.fullmatch(content.content) and "10.0.0.7" in content.content
    for other, said in (("memory://other/1", "reads no namespace 'other'"), ("memory://default/7", "no step 7")):
        with pytest.raises(Exception, match=said):
            run(partial(server.read_resource, other))


def test_the_prompt_brings_what_bears_on_the_task(memory: HierarchicalMemory) -> None:
    asked(memory, "remember", text="The staging server is at 10.0.0.7.")
    server = memory_server(memory)
    prompt: Any = run(lambda: server.get_prompt("with_memory", {"task": "Deploy to staging"}))
    (message,) = prompt.messages
    assert "10.0.0.7" in message.content.text and message.content.text.endswith("\n\nDeploy to staging")
    with pytest.raises(Exception, match="at most 10,000"):
        run(lambda: server.get_prompt("with_memory", {"task": "x" * 10_001}))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["#1", "2025-01-01", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
NAMES = ("text", "session", "query", "max_tokens", "since", "until", "id", "start", "before", "ids", "dry_run", "other")


@pytest.mark.slow
@given(calls=st.lists(st.tuples(st.sampled_from(TOOLS), st.dictionaries(st.sampled_from(NAMES), values)), max_size=8))
@settings(max_examples=30)
def test_no_argument_breaks_the_server(calls: list[tuple[str, dict[str, Any]]]) -> None:
    with HierarchicalMemory(embedder="hashing:64", store="exact") as memory:
        server = memory_server(memory)
        answered(server, "remember", text="The port is 80.")
        for tool, arguments in calls:
            try:
                assert tokens(answered(server, tool, **arguments)) <= 1_100
            except ToolError as error:
                assert "the memory failed" not in str(error)
        assert "Remembered" in answered(server, "remember", text="The port is 8443.")


def test_without_the_package_one_line_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['mcp'] = None; from tinymem.cli.main import main; sys.argv[1:] = ['mcp']; main()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=command_environment(), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "pip install 'tinymem-agents[mcp]'" in done.stderr
