"""redact=: what must not be written down is not, whatever part of a step it is in."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from memories import texts_in
from strategies import MODERATE, steps

from tinymem import (
    ActionStep,
    HierarchicalMemory,
    MessageStep,
    ScratchpadStep,
    Signal,
    Step,
    SystemPromptStep,
    TaskStep,
    ToolCall,
    WorkingMemory,
    summarize_strategy,
)
from tinymem.errors import InputError
from tinymem.memory import execution_result
from tinymem.messages import messages_from_steps, problems
from tinymem.steps.redaction import redact_step
from tinymem.steps.step import dump_step

SECRET, MARK = "sk-4242424242424242", "[key]"


def redact(text: str) -> str:
    return re.sub(r"sk-\d{16}", MARK, text)


open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact", redact=redact, max_tokens=500)

MEMORY = {"redact": redact, "max_tokens": 2_000, "window_tokens": 250}


def nowhere(folder: Path) -> bool:
    """Whether the secret is in no file, nor what full text makes of it."""
    found = texts_in(folder, SECRET.encode(), SECRET[3:].encode())
    return not any(found.values())


S = f"the key {SECRET} is secret"
EVERYWHERE: list[Step] = [
    SystemPromptStep(S, metadata={"note": [S, {SECRET: (S,)}]}),
    TaskStep([{"type": "text", "text": S}, {"type": "image_url", "image_url": {"url": f"https://x/?k={SECRET}"}}]),
    MessageStep("user", S, speaker=f"Ann {SECRET}", session=f"of {SECRET}"),
    ActionStep(S, [ToolCall(f"tool {SECRET}", {"cmd": S, "env": [{SECRET: S}]}, "call-1", S, f"failed: {S}"),
                   ToolCall("b", f'{{"cmd": "{S}"}}', "call-2", [{"type": "text", "text": S}])],
               signals=[Signal(f"uncertain {SECRET}", S)], raw_llm_response=S),
    ActionStep(code=f"login('{SECRET}')", observation=S, error=S),
    ScratchpadStep(S),
]  # fmt: skip


@pytest.mark.parametrize("step", EVERYWHERE, ids=lambda step: step.type)
def test_no_part_of_a_step_keeps_it(memory: HierarchicalMemory, step: Step) -> None:
    held = memory.add(step)
    memory.add_steps([MessageStep("user", f"Remark {n}: all is well.") for n in range(40)])
    assert held == memory.get(step.id) and held.id == step.id
    assert SECRET not in dump_step(held) and SECRET not in repr(held) and MARK in dump_step(held)
    assert SECRET not in str(memory.context("the key").messages) + memory.recall("the key is secret", 400).text
    assert MARK in memory.recall("the key is secret", 400).text
    memory.close()
    assert nowhere(memory.path)


def test_messages_come_back_valid_and_without_it(memory: HierarchicalMemory) -> None:
    function = {"name": "login", "arguments": f'{{"key":"{SECRET}"}}', "strict": True}
    memory.add_messages(
        [
            {"role": "user", "content": S, "name": "Ann", "id": f"m-{SECRET}", "x-trace": {"id": S}},
            {"role": "assistant", "content": None, "refusal": None, "tool_calls": [
                {"id": "c1", "type": "function", "function": function, "index": 0, "extra": S}]},
            {"role": "tool", "tool_call_id": "c1", "content": S, "name": SECRET, "tool_calls.id": S},
        ]
    )  # fmt: skip
    messages = messages_from_steps(memory.short_term.steps)
    sent = memory.context("").messages
    assert problems(sent) == [] and SECRET not in str(messages) + str(sent)
    assert messages[1]["tool_calls"][0]["id"] == messages[2]["tool_call_id"] == "c1"
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == f'{{"key":"{MARK}"}}'
    assert messages[0]["x-trace"] == {"id": f"the key {MARK} is secret"}
    memory.close()
    assert nowhere(memory.path)


def test_a_secret_that_json_writes_otherwise_is_found_in_arguments() -> None:
    def quoted(text: str) -> str:
        return text.replace('pass"word', MARK)

    step = ActionStep(tool_calls=[ToolCall("login", '{"k": "pass\\"word", "n": 1.50}', "c1")])
    assert redact_step(step, quoted).tool_calls[0].arguments == f'{{"k": "{MARK}", "n": 1.5}}'
    harmless = ActionStep(tool_calls=[ToolCall("login", '{"k":  1.50}', "c1"), ToolCall("x", "{not JSON", "c2")])
    assert redact_step(harmless, quoted) is harmless, "word for word as the model wrote it"


def test_the_scratchpad_keeps_it_in_the_process_only(tmp_path: Path) -> None:
    with open_memory(tmp_path) as memory:
        pad = memory.scratchpad
        pad.store("key", SECRET)
        pad.store("held", {"a": [(SECRET, 1)], SECRET: [S], "n": 3.5})
        pad.store("raw", S.encode())
        pad.store("client", object)
        pad.observe(S)
        pad.fail(S)
        for n in range(130):  # what is over the bound is archived
            pad.observe(f"{n}: {S}")
        assert pad.recall("key") == SECRET and pad.observations[-1].endswith(S)
    assert nowhere(tmp_path)
    with open_memory(tmp_path) as memory:
        assert memory.scratchpad.recall("key") == MARK
        kept = f"the key {MARK} is secret"
        assert memory.scratchpad.recall("held") == {"a": [[MARK, 1]], MARK: [kept], "n": 3.5}
        assert memory.scratchpad.recall("raw") == f"<bytes, not kept over a restart: b'{kept}'>"
        assert memory.scratchpad.failed_approaches == [kept] and memory.stats().steps == 31


def test_summaries_of_either_kind_do_not_tell_it(tmp_path: Path) -> None:
    strategy = summarize_strategy("extractive", max_tokens=300)
    with open_memory(tmp_path, prune_strategy=strategy) as memory:
        for n in range(60):
            memory.add(MessageStep("user", f"Remark {n}: {S}."))
        assert MARK in str([*memory.medium_term]) and MARK in str(memory.context("").messages)
    assert nowhere(tmp_path)


def test_what_the_callable_raises_refuses_the_add(tmp_path: Path) -> None:
    def strict(text: str) -> str:
        if "forbidden" in text:
            raise PermissionError("not in here")
        return text

    with open_memory(tmp_path, redact=strict) as memory:
        memory.add(MessageStep("user", "Fine."))
        bad = MessageStep("user", "forbidden", id="bad")
        calls: list[Any] = [
            lambda: memory.add(bad),
            lambda: memory.add_steps([MessageStep("user", "Good."), bad]),
            lambda: memory.archive([bad]),
            lambda: memory.add_messages([{"role": "user", "content": "forbidden"}]),
            lambda: memory.short_term.add_steps([bad]),
            lambda: memory.scratchpad.observe("forbidden"),
        ]
        for call in calls:
            with pytest.raises(PermissionError, match="not in here"):
                call()
        assert memory.stats().steps == 1 and [step.text for step in memory.short_term.steps] == ["Fine."]
        memory.scratchpad.observations.clear()
    assert texts_in(tmp_path, b"forbidden") == {b"forbidden": []}


@pytest.mark.parametrize("bad", [lambda text: None, lambda text: text.encode(), lambda text: 5])
def test_what_gives_no_text_refuses_the_add(tmp_path: Path, bad: Any) -> None:
    with (
        open_memory(tmp_path, redact=bad) as memory,
        pytest.raises(InputError, match="redact must return a string, not a ") as caught,
    ):
        memory.add(MessageStep("user", S))
    assert SECRET not in str(caught.value)


def test_filters_ask_for_what_was_written(memory: HierarchicalMemory) -> None:
    session, speaker = f"of {SECRET}", f"Ann {SECRET}"
    user = {"user": SECRET}
    memory.add(MessageStep("user", "The ladder is there.", session=session, speaker=speaker, metadata=user))
    assert "ladder" in memory.recall("ladder", session=session, speaker=speaker, where=user).text
    assert not memory.recall("ladder", where={"user": "x"}).items
    assert memory.forget(session=session) == 1


def test_a_system_prompt_and_a_task_with_it_go_on_when_opened_again(tmp_path: Path) -> None:
    for _ in range(3):
        with open_memory(tmp_path, system_prompt=S) as memory:
            working = WorkingMemory(system_prompt=S, task_description=f"Log in: {S}", memory=memory)
            id = working.task_id
            if not working.steps:
                seen = {"key": S, "raw": S.encode(), "session": {"token": (S,)}}
                result = {"result": {"answer": S.encode()}, "local_variables": seen, "host": S}
                working.add({"thought": S, "action": "login()", "result": result})
            assert memory.stats().steps == 3 and working.task_id == id
    assert nowhere(tmp_path)
    with open_memory(tmp_path) as memory:
        ran, said = execution_result(WorkingMemory(memory=memory).steps[0]), f"the key {MARK} is secret"
        assert (ran.result, ran.more) == (f"{{'answer': b'{said}'}}", {"host": said})
        assert ran.local_variables == {"key": said, "raw": f"b'{said}'", "session": {"token": [said]}}


@MODERATE
@given(steps())
def test_where_nothing_changes_the_step_is_the_same(step: Step) -> None:
    assert redact_step(step, str) is step and redact_step(step, None) is step
    gone = redact_step(step, lambda text: "x")
    assert (gone.id, gone.type, gone.timestamp, gone.pinned) == (step.id, step.type, step.timestamp, step.pinned)
    assert problems_alike(step, gone)
    assert redact_step(gone, lambda text: "x") is gone


def problems_alike(one: Step, other: Step) -> bool:
    roles = [[(m["role"], m.get("tool_call_id"), len(m.get("tool_calls") or ())) for m in step.to_messages()]
             for step in (one, other)]  # fmt: skip
    return roles[0] == roles[1]


def test_keys_of_a_native_message_are_redacted_too() -> None:
    step = MessageStep("assistant", "Done.")
    native = {"items": [{"type": "function_call", "arguments": {"sk-4711": "sk-4711"}}]}
    step = step.evolve(overlay=({"set": {"native": native}},))
    found = redact_step(step, lambda text: text.replace("sk-4711", "***"))
    assert found.overlay[0]["set"]["native"]["items"][0] == {"type": "function_call", "arguments": {"***": "***"}}
