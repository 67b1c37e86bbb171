"""Random steps, histories and chat messages for property tests."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import cache
from itertools import count
from typing import Any

from hypothesis import assume, settings
from hypothesis import strategies as st

from tinymem.errors import BudgetError
from tinymem.steps.ids import new_id
from tinymem.steps.types import (
    ActionStep,
    FinalAnswerStep,
    MessageStep,
    PlanningStep,
    ScratchpadStep,
    Signal,
    Step,
    SummaryStep,
    SystemPromptStep,
    TaskStep,
    ToolCall,
)
from tinymem.window.semantic import semantic_pruning
from tinymem.window.strategies import (
    PruneStrategy,
    compose,
    keep_last_n_steps,
    keep_system_and_recent,
    no_pruning,
    prune_old_observations,
    token_budget,
)
from tinymem.window.summarize import summarize_strategy

MODERATE = settings(derandomize=True, database=None)  # with the examples of the profile, see tests/conftest.py
NOW = datetime(2030, 1, 1, tzinfo=timezone.utc)
THOROUGH = settings(MODERATE, max_examples=2 * MODERATE.max_examples)

Chat = list[dict[str, Any]]


@cache
def texts(max_size: int = 40) -> st.SearchStrategy[str]:
    """Any text that a Python string can hold: NUL, control characters and lone surrogates too."""
    awkward = ["", " ", "\x00", "\ud800", "a\udfffb", "\x1b[31m", "日本語", "👩‍👩‍👧", "<|endoftext|>", "\r\n"]
    return st.one_of(st.text(st.characters(), max_size=max_size), st.sampled_from(awkward))


PICTURE = {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}
IMAGE: dict[str, Any] = {"type": "image_url", "image_url": PICTURE}
FILE: dict[str, Any] = {"type": "file", "file": {"file_id": "file-1"}}


@cache
def parts() -> st.SearchStrategy[list[dict[str, Any]]]:
    """A list of content parts: texts, images, files, refusals, parts with a key of their own."""
    text = texts(20).map(lambda t: {"type": "text", "text": t})
    cached = texts(20).map(lambda t: {"type": "text", "text": t, "cache_control": {"type": "ephemeral"}})
    refusal = texts(20).map(lambda t: {"type": "refusal", "refusal": t})
    return st.lists(st.one_of(text, cached, refusal, st.just(IMAGE), st.just(FILE)), max_size=3)


@cache
def contents() -> st.SearchStrategy[str | list[dict[str, Any]]]:
    return st.one_of(texts(), texts(200), parts())


@cache
def json_values() -> st.SearchStrategy[Any]:
    leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts(10))
    return st.recursive(leaves, lambda v: st.one_of(st.lists(v, max_size=3), _objects(v)), max_leaves=6)


@cache
def _objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(texts(8), values, max_size=3)


@cache
def timestamps() -> st.SearchStrategy[datetime]:
    zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
    return st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1), timezones=zones)


PINNED = st.integers(0, 9).map(lambda i: i == 0)


def _common() -> dict[str, st.SearchStrategy[Any]]:
    return {
        "timestamp": timestamps(),
        "session": st.none() | texts(5),
        "speaker": st.none() | texts(5),
        "pinned": PINNED,
        "metadata": _objects(json_values()),
    }


CALL_IDS = st.shared(st.builds(count), key="call ids").map(lambda numbers: f"call_{next(numbers)}")


def tool_calls(answered: st.SearchStrategy[bool], arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[ToolCall]:
    """A call with an id of its own in its example; answered, failed, both or not yet.

    The ids are the same in every run, because they are in prompts and so count towards budgets.
    """

    def call(name: str, arguments: Any, id: str, observation: Any, error: str | None, answer: bool) -> ToolCall:
        observation = "" if answer and observation is None and error is None else observation
        return ToolCall(name, arguments, id, observation if answer else None, error if answer else None)

    return st.builds(call, texts(8), arguments, CALL_IDS, st.none() | contents(), st.none() | texts(), answered)


@cache
def actions() -> st.SearchStrategy[ActionStep]:
    """Actions with up to three tool calls, or code, or only a thought; with every field that a step can have."""
    more = {
        "signals": st.lists(st.builds(Signal, texts(5), texts(10)), max_size=2),
        "is_final": st.booleans(),
        "raw_llm_response": st.none() | texts(),
        "style": st.none() | st.sampled_from(["tools", "observation"]),
        **_common(),
    }
    return _actions(st.booleans(), st.one_of(_objects(json_values()), texts()), more)


def _actions(
    answered: st.SearchStrategy[bool], arguments: st.SearchStrategy[Any], more: dict[str, st.SearchStrategy[Any]]
) -> st.SearchStrategy[ActionStep]:
    thought = st.none() | contents()
    calls = st.lists(tool_calls(answered, arguments), min_size=1, max_size=3)
    code = {"code": st.none() | texts(), "observation": st.none() | contents(), "error": st.none() | texts()}
    return st.one_of(st.builds(ActionStep, thought, calls, **more), st.builds(ActionStep, thought, **code, **more))


@cache
def messages() -> st.SearchStrategy[MessageStep]:
    roles = st.sampled_from(["user", "assistant", "system", "developer"])
    return st.builds(MessageStep, roles, st.none() | contents(), **_common())


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """Any step, alone: of every type, tool messages too."""
    return draw(_any_step())


@cache
def _any_step() -> st.SearchStrategy[Step]:
    plain: list[st.SearchStrategy[Step]] = [
        st.builds(cls, contents(), **_common())
        for cls in (SystemPromptStep, TaskStep, PlanningStep, ScratchpadStep, FinalAnswerStep)
    ]
    summaries = st.builds(SummaryStep, contents(), covers=st.lists(st.builds(new_id), max_size=3), **_common())
    results = st.builds(MessageStep, st.just("tool"), contents(), texts(8), **_common())
    return st.one_of(*plain, summaries, messages(), results, actions())


@st.composite
def histories(draw: st.DrawFn, max_chunks: int = 12) -> list[Step]:
    """A run as an agent makes it: valid, with parallel calls, results that come late, and calls nobody answers."""
    found: list[Step] = [draw(st.builds(SystemPromptStep, texts(10)))] if draw(st.booleans()) else []
    for kind in draw(st.lists(st.sampled_from("ttmmmmaaaallldpsf"), max_size=max_chunks)):
        found += draw(_late()) if kind == "l" else [draw(CHUNKS[kind])]
    return found


def _short_actions(answered: st.SearchStrategy[bool]) -> st.SearchStrategy[ActionStep]:
    return _actions(answered, st.just({"a": 1}), {"pinned": PINNED})


SHORT_MESSAGES = st.builds(MessageStep, st.sampled_from(["user", "assistant"]), contents(), pinned=PINNED)
OPEN_ACTIONS = _short_actions(st.booleans())
CHUNKS: dict[str, st.SearchStrategy[Any]] = {
    "t": st.builds(TaskStep, contents()),
    "m": SHORT_MESSAGES,
    "a": _short_actions(st.just(True)),
    "d": _short_actions(st.just(False)),
    "p": st.builds(PlanningStep, contents()),
    "s": st.builds(SummaryStep, contents()),
    "f": st.builds(FinalAnswerStep, contents()),
}


@st.composite
def _late(draw: st.DrawFn) -> list[Step]:
    """An action, and in any order the results it still waits for; now and then something is said in between."""
    action = draw(OPEN_ACTIONS)
    found: list[Step] = [action]
    for call in draw(st.permutations([call for call in action.tool_calls if not call.answered])):
        if draw(st.integers(0, 3)) == 0:
            found.append(draw(SHORT_MESSAGES))
        found.append(MessageStep("tool", draw(contents()), call.id))
    return found


EXTRA: dict[str, st.SearchStrategy[Any]] = {
    "name": texts(6) | st.none(),
    "refusal": st.none() | texts(5),
    "annotations": st.just([]),
    "reasoning_content": texts(),
    "x": json_values(),
}
SOME_EXTRA = st.sets(st.sampled_from(sorted(EXTRA)), max_size=2)
ARGUMENTS = st.one_of(texts(), st.just('{"a": 1}'), st.just(""))
MAYBE_CONTENTS = st.none() | contents()


@st.composite
def chats(draw: st.DrawFn, max_turns: int = 6) -> Chat:
    """OpenAI messages as an API would take them: every tool result answers a call that is still open."""
    found: Chat = []
    if draw(st.booleans()):
        role = draw(st.sampled_from(["system", "developer"]))
        found.append(_dressed(draw, {"role": role, "content": draw(contents())}))
    for _ in range(draw(st.integers(0, max_turns))):
        found += _tool_turn(draw) if draw(st.booleans()) else [_line(draw)]
    return found


def _line(draw: st.DrawFn) -> dict[str, Any]:
    role = draw(st.sampled_from(["user", "user", "assistant", "assistant", "system", "developer", "function"]))
    message: dict[str, Any] = {"role": role, "content": draw(contents())}
    if role == "assistant" and draw(st.integers(0, 4)) == 0:
        message |= {"content": None, "function_call": {"name": "f", "arguments": draw(texts(5))}}
    if role == "assistant" and draw(st.integers(0, 4)) == 0:
        message["tool_calls"] = draw(st.sampled_from([None, []]))
    if draw(st.integers(0, 9)) == 0:
        message.pop("content")
    return _dressed(draw, message)


def _dressed(draw: st.DrawFn, message: dict[str, Any]) -> dict[str, Any]:
    """`message` with keys that an API may add, and in another order."""
    for key in draw(SOME_EXTRA) if draw(st.booleans()) else ():
        message[key] = draw(EXTRA[key])
    return dict(draw(st.permutations(list(message.items()))))


def _call(draw: st.DrawFn, id: str) -> dict[str, Any]:
    arguments = draw(ARGUMENTS)
    call: dict[str, Any] = {"id": id, "type": "function", "function": {"name": draw(texts(6)), "arguments": arguments}}
    shape = draw(st.integers(0, 9))
    if shape == 0:
        call = {"id": id, "type": "custom", "custom": {"name": "grep", "input": arguments}}
    if shape == 1:
        call |= {"index": 0, "extra": draw(json_values())}
    if shape == 2:
        del call["type"]
    return call


def _tool_turn(draw: st.DrawFn) -> Chat:
    ids = [f"c{draw(st.integers(0, 99))}-{at}" for at in range(draw(st.integers(1, 3)))]
    said: dict[str, Any] = {"role": "assistant", "tool_calls": [_call(draw, id) for id in ids]}
    if draw(st.booleans()):
        said["content"] = draw(MAYBE_CONTENTS)
    found = [_dressed(draw, said)]
    order = draw(st.permutations(ids)) if draw(st.booleans()) else ids
    for id in order[: draw(st.integers(0, len(ids)))] if draw(st.booleans()) else order:
        if draw(st.integers(0, 5)) == 0:
            found.append(_line(draw))
        content = None if draw(st.integers(0, 9)) == 0 else draw(contents())
        found.append(_dressed(draw, {"role": "tool", "tool_call_id": id, "content": content}))
    return found


def broken_chats() -> st.SearchStrategy[Chat]:
    """Messages of the right shape in any order: orphans, duplicates, calls without results, empty ones."""
    ids = st.sampled_from(["a", "b", "c"])
    calls = ids.map(lambda id: {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}})
    content = st.one_of(st.none(), st.sampled_from(["", " ", "text"]), parts())
    said = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system"]), "content": content})
    made = st.lists(calls, max_size=3)
    called = st.fixed_dictionaries({"role": st.just("assistant"), "content": content, "tool_calls": made})
    result = st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": ids, "content": content})
    return st.lists(st.one_of(said, called, called, result, result, result), max_size=14)


class Words:
    """A token a word, and how often it was asked."""

    name = "words"

    def __init__(self) -> None:
        self.asked = 0

    def count(self, text: str) -> int:
        self.asked += 1
        return len(text.split())


WORDS = Words()
OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "counter": st.just(WORDS),
    "style": st.sampled_from(["auto", "tools", "observation"]),
    "tasks": st.sampled_from(["all", "current"]),
}


def falling(most: int) -> st.SearchStrategy[tuple[int, int]]:
    """A limit, and a low-water mark that is no higher."""
    return st.tuples(st.integers(0, most), st.integers(0, most)).map(lambda pair: (pair[0], min(pair)))


def prune_strategies() -> st.SearchStrategy[PruneStrategy]:
    """Any built-in strategy."""
    small = st.integers(0, 6)
    budgets = st.builds(
        lambda limits, **more: token_budget(limits[0], low_water=limits[1], **more), falling(150), **OPTIONS
    )
    observations = st.builds(
        prune_old_observations, small, st.integers(0, 99), st.sampled_from([None, 0, 60]), now=st.just(NOW),
        batch=st.integers(0, 3),
    )  # fmt: skip
    simple = st.one_of(
        st.builds(keep_last_n_steps, small),
        falling(6).map(lambda limits: keep_last_n_steps(limits[0], low_water=limits[1])),
        falling(6).map(lambda limits: keep_system_and_recent(limits[0], low_water=limits[1])),
        observations,
        budgets,
        st.builds(no_pruning),
    )
    return st.one_of(simple, simple, st.builds(compose, observations, simple), semantic_strategies())


def summary_strategies() -> st.SearchStrategy[PruneStrategy]:
    """`summarize_strategy` with any options, by the extractive summarizer."""
    return st.builds(
        lambda limits, share, **more: summarize_strategy(
            max_tokens=limits[0], low_water=limits[1], summary_tokens=min(limits[1], share), **more
        ),
        falling(200), st.integers(0, 200), keep_recent=st.integers(0, 4), **OPTIONS,
    )  # fmt: skip


def semantic_strategies() -> st.SearchStrategy[PruneStrategy]:
    """`semantic_pruning` with any options."""
    return st.builds(
        lambda limits, query, recent, **more: semantic_pruning(
            "hashing:32", limits[0], query, recent, low_water=limits[1], **more
        ),
        falling(150), st.sampled_from([None, "", "What failed?"]), st.integers(0, 4), shorten=st.booleans(), **OPTIONS,
    )  # fmt: skip


def pruned(strategy: PruneStrategy, steps: list[Step]) -> list[Step]:
    """The new window; a history whose fixed steps are over the budget is not the point here."""
    try:
        return strategy(steps)
    except BudgetError:
        assume(False)
        raise
