"""Random conversations as providers really have them: what OpenAI-compatible servers, SDKs and agents leave behind.

Each provider has its own habits with ids, arguments, results and keys beside them; a conversation here goes through
several of them, as one does whose model was switched half-way.
"""

from __future__ import annotations

import copy
import json
from functools import cache
from typing import Any

from hypothesis import strategies as st
from strategies import FILE, IMAGE, Chat, texts

TOOLS = st.sampled_from(["read", "mcp.read_file", "functions.bash:0", "x" * 80, "", "läs"])
WORDS = texts(30)
LONE = st.sampled_from(["ok", "\ud83d cut", "", " ", "<|im_end|>"])
MCP_IMAGE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
ANTHROPIC_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


@cache
def objects() -> st.SearchStrategy[dict[str, Any]]:
    """Arguments as a model means them."""
    values = st.one_of(st.integers(), st.none(), st.floats(), WORDS, st.lists(st.booleans(), max_size=2))
    return st.dictionaries(texts(6), values, max_size=2)


@cache
def arguments() -> st.SearchStrategy[Any]:
    """Arguments as they come: as text, as text that is no JSON or no object, as a mapping, or not at all."""
    broken = st.sampled_from(["", " ", "null", "[1]", '"a"', '{"path": "a', "{'a': 1}", '{"a": NaN}', "[" * 2_000])
    return st.one_of(objects().map(json.dumps), objects(), broken, texts(20), st.none(), st.just([1, 2]))


@cache
def parts() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Content in parts, in the shapes of OpenAI, Anthropic, MCP, Mistral and the Responses API."""
    text = st.one_of(WORDS, LONE).map(lambda value: {"type": "text", "text": value})
    others: list[dict[str, Any]] = [
        {"type": "text", "text": "kept", "cache_control": {"type": "ephemeral"}},
        {"type": "input_text", "text": "from the Responses API"},
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "refusal", "refusal": "I cannot."},
        {"type": "input_image", "image_url": "https://example.com/a.png"},
        {"type": "image_url", "image_url": "file:///etc/passwd"},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf"}},
        {"text": "of no type"},
    ]
    return st.lists(
        st.one_of(text, st.sampled_from([*2 * (IMAGE, FILE, MCP_IMAGE, ANTHROPIC_IMAGE), *others])), max_size=4
    )


@cache
def said() -> st.SearchStrategy[Any]:
    return st.one_of(WORDS, LONE, parts(), st.none())


DUMPED = {  # what SDKs leave in a message when they dump it
    "reasoning_content": st.one_of(st.none(), WORDS),
    "refusal": st.one_of(st.none(), st.just("I cannot.")),
    "annotations": st.just([]),
    "audio": st.one_of(st.none(), st.just({"id": "audio_1", "expires_at": 1, "transcript": "Hello."})),
    "function_call": st.none(),
    "tool_calls": st.sampled_from([None, []]),
    "name": st.sampled_from([None, "Ann", "Ann Lee", "安", "a" * 70]),
    "thinking": WORDS,
    "provider_specific_fields": st.just({"citations": None}),
    "images": st.sampled_from([["iVBORw0KGgoAAA"], ["/srv/app/a.png"], [], None]),
    "id": st.just("msg_1"),
}
SOME_DUMPED = st.sets(st.sampled_from(sorted(DUMPED)), max_size=3)


BESIDE_CALLS = st.one_of(st.none(), st.just(""), said())


@st.composite
def provider_chats(draw: st.DrawFn, max_turns: int = 6) -> Chat:
    """A conversation with turns of any provider, system messages anywhere, and results that are late or missing."""
    found: Chat = []
    for kind in draw(st.lists(st.sampled_from("sussaoooglttfi"), max_size=max_turns)):
        found += _TURNS[kind](draw)
    return found


def with_ids_by_place(messages: Chat) -> Chat:
    """`messages` with ids of calls by their place, and no word of them elsewhere: a memory gives calls ids of its own
    where their provider gave none."""
    named: Chat = copy.deepcopy(messages)
    for message in named:
        if message["role"] == "user" and "returned:" in str(message["content"]):
            message["content"] = [part for part in message["content"] if part["type"] != "text"]
    text = json.dumps(named)
    for at, id in enumerate(call["id"] for message in named for call in message.get("tool_calls", ())):
        text = text.replace(f'id": "{id}"', f'id": "call number {at}"')
    found: Chat = json.loads(text)
    return found


def _dumped(draw: st.DrawFn, message: dict[str, Any], *without: str) -> dict[str, Any]:
    keys = draw(SOME_DUMPED) if draw(st.booleans()) else set()
    return message | {key: draw(DUMPED[key]) for key in sorted(keys - message.keys() - set(without))}


def _user(draw: st.DrawFn) -> Chat:
    return [_dumped(draw, {"role": "user", "content": draw(said())}, "audio", "refusal")]


def _system(draw: st.DrawFn) -> Chat:
    return [_dumped(draw, {"role": draw(st.sampled_from(["system", "developer"])), "content": draw(said())}, "images")]


def _assistant(draw: st.DrawFn) -> Chat:
    return [_dumped(draw, {"role": "assistant", "content": draw(said())})]


def _calls(draw: st.DrawFn, ids: list[Any], shape: Any) -> tuple[dict[str, Any], list[str]]:
    names = [draw(TOOLS) for _ in ids]
    calls = [shape(id, name, draw(arguments())) for id, name in zip(ids, names, strict=True)]
    message = {"role": "assistant", "content": draw(BESIDE_CALLS), "tool_calls": calls}
    if draw(st.integers(0, 5)) == 0:
        del message["content"]
    return _dumped(draw, message), names


def _count(draw: st.DrawFn) -> int:
    return draw(st.integers(1, 3))


def _with_ids(draw: st.DrawFn, ids: list[str], **more: Any) -> Chat:
    """A turn in which results name their calls: in order or not, some late, some missing."""

    def shape(id: str, name: str, arguments: Any) -> dict[str, Any]:
        if draw(st.integers(0, 9)) == 0:
            return {"id": id, "type": "custom", "custom": {"name": name, "input": str(arguments)}}
        return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}

    message, names = _calls(draw, ids, shape)
    results: Chat = [{"role": "tool", "tool_call_id": id, "content": draw(said())} for id in ids]
    for result, name in zip(results, names, strict=True):
        if draw(st.integers(0, 3)) == 0:
            result["name"] = name
    order = draw(st.permutations(results)) if len(set(ids)) == len(ids) and draw(st.booleans()) else results
    order = order[: draw(st.integers(0, len(order)))] if draw(st.integers(0, 3)) == 0 else order
    between = _user(draw) if draw(st.integers(0, 4)) == 0 else []
    at = draw(st.integers(0, len(order)))
    return [message, *order[:at], *between, *order[at:]]


def _openai(draw: st.DrawFn) -> Chat:
    return _with_ids(draw, [f"call_{draw(st.integers(0, 10**9))}_{at}" for at in range(_count(draw))])


def _long(draw: st.DrawFn) -> Chat:
    """Ids as the Responses API has them, longer than Chat Completions takes, or as Kimi does."""
    start = draw(st.sampled_from(["fc_" + "0f" * 24, "functions.bash:", "chatcmpl-tool-"]))
    return _with_ids(draw, [f"{start}{at}" for at in range(_count(draw))], index=0)


def _repeated(draw: st.DrawFn) -> Chat:
    """The same ids in every turn, or within one."""
    ids = [draw(st.sampled_from(["call_0", "call_1", "1"])) for _ in range(_count(draw))]
    return _with_ids(draw, ids, extra_content={"google": {"thought_signature": "sig"}})


def _gemini(draw: st.DrawFn) -> Chat:
    """Empty ids, in the calls and in the results."""
    return _with_ids(draw, [""] * _count(draw))


def _ollama(draw: st.DrawFn) -> Chat:
    """No ids at all: results name their tool, or stand in order."""
    count = _count(draw)

    def shape(id: None, name: str, arguments: Any) -> dict[str, Any]:
        return {"function": {"name": name, "arguments": arguments if isinstance(arguments, dict) else {"a": 1}}}

    message, names = _calls(draw, [None] * count, shape)
    key = draw(st.sampled_from(["tool_name", "name", None]))
    results: Chat = [{"role": "tool", "content": draw(said())} | ({key: name} if key else {}) for name in names]
    return [message, *results[: draw(st.integers(0, count))]]


def _legacy(draw: st.DrawFn) -> Chat:
    """Functions before there were tools."""
    name = draw(TOOLS)
    call = {"role": "assistant", "content": None, "function_call": {"name": name, "arguments": draw(arguments())}}
    result = {"role": "function", "name": name, "content": draw(WORDS)}
    return [call, *draw(st.sampled_from([[result], [], [*_user(draw), result], [result, result]]))]


_TURNS: dict[str, Any] = {
    "s": _system, "u": _user, "a": _assistant, "o": _openai, "g": _gemini, "l": _long, "t": _repeated, "f": _legacy,
    "i": _ollama,
}  # fmt: skip
