"""What is fuzzed: one function for each thing that reads what others wrote. Bytes go in, and nothing but errors of ours
may come out, nor anything that cannot be used afterwards.

The bytes are the input itself, or (where that is JSON, which random bytes hardly ever are) they choose what it is made
of: keys that mean something, values of every type, in any nesting. Half of the inputs are of each kind. To fuzz another
reader, write a function and give it a line in TARGETS.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

from tinymem import ActionStep, AgentMemory, HierarchicalMemory, Step, WorkingMemory, count_tokens
from tinymem.errors import TinymemError
from tinymem.messages import messages_from_steps, problems, repair, steps_from_messages
from tinymem.messages.tokens import EstimatingCounter
from tinymem.recall.passages import passages_of
from tinymem.recall.query.dates import spans
from tinymem.runs.readers import read_runs
from tinymem.steps.step import dump_step, load_step
from tinymem.steps.types import STEP_TYPES
from tinymem.upkeep import import_memory

__all__ = ["TARGETS", "made_of"]

NOW = datetime(2025, 3, 1, tzinfo=timezone.utc)
DEEPEST = 6
OPTIONS: dict[str, Any] = {"embedder": "hashing:16", "store": "exact", "counter": EstimatingCounter()}
TEXTS = (
    "", " ", "a", "\x00", "\ud800", "\u202e", "\r\n", "👩‍👩‍👧", '"', "'", "NEAR(a b)", "*", "2025-03-01T00:00:00+00:00",
    "2025-13-45", "9999-12-31T23:59:59Z", "{}", "[", "1e999", "é" * 50,
)  # fmt: skip
NUMBERS = (0, 1, -1, 0.5, 2**31, 2**63, 2**70, 1e308, float("inf"), float("nan"), -0.0)
STEP_WORDS = (
    "format", "type", "id", "timestamp", "session", "speaker", "step_number", "pinned", "metadata", "overlay",
    "set", "drop",
    "role", "content", "tool_call_id", "thought", "tool_calls", "code", "observation", "error", "signals", "is_final",
    "raw_llm_response", "name", "arguments", "message", "text", "covers", "content", "task", "plan", "output",
    "summary", "answer", *STEP_TYPES, "user", "tool", "assistant", "milestone",
)  # fmt: skip
CHAT_WORDS = (
    "role", "content", "tool_calls", "tool_call_id", "id", "type", "function", "custom", "name", "arguments", "input",
    "system", "developer", "user", "assistant", "tool", "text", "image_url", "refusal", "function_call", "messages",
    "traj", "units", "speaker", "session", "timestamp", "extra", "exit", "c1", "c2",
)  # fmt: skip
EXPORT_WORDS = (
    "tinymem_export", "embedder", "fingerprint", "next_number", "steps", "step", "tokens", "position", "window", "view",
    "milestone", "episode", "first", "last", "episodes", "end", "AAAA", *STEP_WORDS,
)  # fmt: skip
VALUE_WORDS = ("$type", "value", "x", "__x__", "type", "repr")


class _Choices:
    """Numbers chosen by bytes; 0 once they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def below(self, end: int) -> int:
        """A number from 0 to `end` - 1."""
        value = self._data[self._at] if self._at < len(self._data) else 0
        self._at += 1
        return value % end


def made_of(data: bytes, words: tuple[str, ...]) -> Any:
    """The JSON value, of these `words` and others, that `data` chooses."""
    return _value(_Choices(data), words, 0)


def _value(choose: _Choices, words: tuple[str, ...], depth: int) -> Any:
    kind = choose.below(12 if depth < DEEPEST else 7)
    if kind < 3:
        return words[choose.below(len(words))]
    if kind == 3:
        return TEXTS[choose.below(len(TEXTS))]
    if kind == 4:
        return NUMBERS[choose.below(len(NUMBERS))]
    if kind == 5:
        return (None, True, False)[choose.below(3)]
    if kind == 6:
        return choose.below(4)
    if kind < 9:
        return [_value(choose, words, depth + 1) for _ in range(choose.below(5))]
    return {words[choose.below(len(words))]: _value(choose, words, depth + 1) for _ in range(choose.below(9))}


def _record(words: tuple[str, ...], known: dict[str, Any], data: bytes) -> Any:
    """A value of `words`; where it is an object, mostly with what stands in every record of its kind."""
    value = made_of(data[1:], words)
    return {**known, **value} if isinstance(value, dict) and data[:1] > b"\x20" else value


def _read_step(data: bytes) -> None:
    """A step's record."""
    record = _record(STEP_WORDS, {"format": 1, "type": [*STEP_TYPES][data[0] % len(STEP_TYPES)] if data else ""}, data)
    _use(Step.from_dict(record))


def _read_line(data: bytes) -> None:
    """A line of a journal, or of a file of steps."""
    _use(load_step(data.decode("utf-8", "replace")))


def _use(step: Step) -> None:
    """What is read can be shown, cut and saved, and is then the same."""
    for style in ("tools", "observation"):
        step.to_messages(style=style)
        step.to_messages(True, style)
    step.truncate(5)
    passages_of(step)
    line = dump_step(step)
    assert dump_step(load_step(line)) == line
    hash(step.id), repr(step), step.text.encode("utf-8", "surrogatepass")


def _read_messages(data: bytes) -> None:
    """Chat messages: what is taken comes out as it went in, in the style that keeps them."""
    value = made_of(data, CHAT_WORDS)
    messages = value if isinstance(value, list) else [value, *([value] * (len(data) % 2))]
    steps = steps_from_messages(messages)
    assert json.dumps(messages_from_steps(steps, style="tools"), sort_keys=True) == json.dumps(messages, sort_keys=True)
    repaired = repair(messages)
    assert repair(repaired) == repaired and not problems(repaired)
    count_tokens(messages, EstimatingCounter())
    for step in steps:
        _use(step)


def _read_file(data: bytes) -> None:
    """A recorded run, of any shape, gzip'd or not."""
    lines = [made_of(part, CHAT_WORDS) for part in data[1:].split(b"\n")]
    kind = data[0] % 4 if data else 3
    text = data[1:] if kind == 3 else "\n".join(json.dumps(line, indent=kind % 2 or None) for line in lines).encode()
    path = _folder() / "run.jsonl"
    path.write_bytes(gzip.compress(text) if kind == 2 else text)
    for run in read_runs(path):
        for step in run.steps:
            _use(step)


def _read_scratchpad(data: bytes) -> None:
    """A scratchpad's dump."""
    text = data[1:].decode("utf-8", "replace")
    if data[:1] > b"\x40":
        record: dict[str, Any] = {"variables": {}, "observations": [], "failed_approaches": []}
        field = [*record][data[0] % len(record)]
        text = json.dumps({"format": 1, **record, field: made_of(data[1:], VALUE_WORDS)})
    memory = AgentMemory.load(text, counter=EstimatingCounter())
    memory.to_context(50)
    assert AgentMemory.load(memory.dump(), counter=EstimatingCounter()).dump() == memory.dump()


def _read_export(data: bytes) -> None:
    """An exported memory: one that is refused leaves nothing behind, one that is taken works, and is exported again."""
    file, place = _folder() / "export.jsonl", _folder() / "imported"
    file.write_bytes(_changed_export(data) if data[:1] > b"\x40" else data[1:])
    shutil.rmtree(place, ignore_errors=True)
    try:
        import_memory(place, file, embedder=OPTIONS["embedder"])
    except TinymemError:
        assert not [*place.rglob("journal.db")]
        raise
    with HierarchicalMemory(place, **OPTIONS) as memory:
        memory.recall("pump", 100, now=NOW)
        memory.context("pump", now=NOW)
        memory.export(file)


def _changed_export(data: bytes) -> bytes:
    """A good export in which one line is another, or has other fields."""
    lines = [*_export()]
    at, other = data[0] % len(lines), made_of(data[2:], EXPORT_WORDS)
    whole = json.loads(lines[at])
    if isinstance(other, dict) and data[1:2] > b"\x40":
        inside = next(iter(whole)) if isinstance(whole, dict) else ""
        other = {**whole, inside: {**whole[inside], **other}} if isinstance(whole[inside], dict) else {**whole, **other}
    lines[at] = json.dumps(other)
    return "\n".join(lines).encode()


def _read_working(data: bytes) -> None:
    """A step of a working memory, and what another kept in its metadata."""
    words = (*STEP_WORDS, "step_number", "thought", "action", "result", "execution_status", "execution_time", "tool")
    working = WorkingMemory(system_prompt="x", task_description="x", counter=EstimatingCounter())
    working.add(_record(words, {"thought": "x"}, data))
    kept = {"execution_result": made_of(data[1:9], (*words, "iteration"))}
    working.add(ActionStep("x", metadata=kept))
    working.format_history(max_tokens=40)
    working.get_full_context()


def _ask(data: bytes) -> None:
    """Questions, filters, ids and sessions of any text."""
    words, memory = data.decode("utf-8", "surrogateescape"), _memory()
    found = memory.recall(words, 200, now=NOW)
    found.text.encode()
    assert found.tokens <= 200
    spans(words, NOW, 0, NOW.timestamp())
    memory.recall("pump", 100, now=NOW, session=words, speaker=words[:9], tool=words, type=words)
    memory.get(words)


@cache
def _folder() -> Path:
    """A folder of this process."""
    kept.append(tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True))
    return Path(kept[-1].name)


kept: list[tempfile.TemporaryDirectory[str]] = []


def _steps() -> Iterator[Step]:
    texts = ("pump 7 runs", "the valve is shut " * 100, "NEAR(a b) AND 'c'")
    return (load_step(json.dumps({"format": 1, "type": "task", "task": text})) for text in texts * 9)


@cache
def _memory() -> HierarchicalMemory:
    """A small memory that is only asked."""
    memory = HierarchicalMemory(_folder() / "asked", **OPTIONS)
    memory.add_steps([*_steps()])
    return memory


@cache
def _export() -> tuple[str, ...]:
    """The lines of an exported memory."""
    with HierarchicalMemory(_folder() / "exported", **OPTIONS) as memory:
        memory.add_steps([*_steps()][:6])
        memory.scratchpad.observe("the valve is shut")
        memory.export(file := _folder() / "whole.jsonl")
    return tuple(file.read_text("utf-8").splitlines())


def _guarded(read: Callable[[bytes], None]) -> Callable[[bytes], None]:
    def guarded(data: bytes) -> None:
        try:
            read(data)
        except TinymemError:
            return

    return guarded


TARGETS: dict[str, Callable[[bytes], None]] = {
    "step": _guarded(_read_step),
    "line": _guarded(_read_line),
    "messages": _guarded(_read_messages),
    "readers": _guarded(_read_file),
    "scratchpad": _guarded(_read_scratchpad),
    "export": _guarded(_read_export),
    "working": _guarded(_read_working),
    "recall": _guarded(_ask),
}
