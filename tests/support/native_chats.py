"""Random conversations as Anthropic's Messages API and OpenAI's Responses API have them, such as the APIs accept."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

PNG = "iVBORw0KGgo="
WORDS = st.sampled_from(["Yes.", "The port is 8443.", "日本語", "a " * 60, "see <b>", "…", "What call 1 returned:"])
TOOLS = st.sampled_from(["read", "mcp__files__read", "bash"])
INPUTS = st.dictionaries(st.sampled_from(["path", "n"]), st.one_of(WORDS, st.integers(), st.none()), max_size=2)
MARK = {"type": "ephemeral"}

Items = list[dict[str, Any]]


def _text(draw: st.DrawFn) -> dict[str, Any]:
    mark = {"cache_control": MARK} if draw(st.integers(0, 9)) == 0 else {}
    return {"type": "text", "text": draw(WORDS), **mark}


PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQ="}
PAGES = {"type": "content", "content": [{"type": "text", "text": "Page 1."}, PICTURE]}
MEDIA: Items = [
    PICTURE,
    {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
    {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
    {"type": "document", "source": PDF, "title": "a.pdf"},
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Plain."}},
    {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
    {"type": "document", "source": PAGES},
    {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "found"}]},
]


def _blocks(draw: st.DrawFn, least: int) -> Items:
    count = draw(st.integers(least, 3))
    return [draw(st.sampled_from(MEDIA)) if draw(st.integers(0, 3)) == 0 else _text(draw) for _ in range(count)]


@st.composite
def anthropic_chats(draw: st.DrawFn, max_turns: int = 5) -> dict[str, Any]:
    """A request: system prompt, thinking, parallel calls, results in texts and blocks, words beside results."""
    messages: Items = [{"role": "user", "content": draw(WORDS) if draw(st.booleans()) else _blocks(draw, 1)}]
    for turn in range(draw(st.integers(0, max_turns))):
        said, ids = _answer(draw, turn)
        messages.append({"role": "assistant", "content": said})
        results = [_result(draw, id) for id in ids]
        messages.append({"role": "user", "content": [*results, *_blocks(draw, 0 if results else 1)]})
        if draw(st.integers(0, 4)) == 0:
            messages.append({"role": "user", "content": draw(WORDS)})
    system: Any = draw(st.sampled_from([None, "Be brief.", [{"type": "text", "text": "Be.", "cache_control": MARK}]]))
    return _within_four({**({} if system is None else {"system": system}), "messages": messages})


def _within_four(request: dict[str, Any]) -> dict[str, Any]:
    """`request` with the first four of its marks of caches, as many as the API takes."""
    left = 4

    def kept(value: Any) -> Any:
        nonlocal left
        if isinstance(value, list):
            return [kept(one) for one in value]
        if not isinstance(value, dict):
            return value
        if "cache_control" in value:
            left -= 1
        return {key: kept(one) for key, one in value.items() if key != "cache_control" or left >= 0}

    found: dict[str, Any] = kept(request)
    return found


def _answer(draw: st.DrawFn, turn: int) -> tuple[Any, list[str]]:
    blocks: Items = []
    if draw(st.booleans()):
        blocks.append({"type": "thinking", "thinking": draw(WORDS), "signature": f"sig{turn}"})
    if draw(st.integers(0, 4)) == 0:
        blocks.append({"type": "redacted_thinking", "data": "opaque"})
    if draw(st.booleans()):
        blocks.append({"type": "text", "text": draw(WORDS), "citations": None})
    if draw(st.integers(0, 6)) == 0:
        blocks += _web_search(turn)
    ids = [f"toolu_{turn}_{at}" for at in range(draw(st.integers(0, 3)))]
    blocks += [{"type": "tool_use", "id": id, "name": draw(TOOLS), "input": draw(INPUTS)} for id in ids]
    if not any(block["type"] == "text" for block in blocks) and not ids:
        return draw(WORDS), []
    return blocks, ids


def _web_search(turn: int) -> Items:
    found = {"type": "web_search_result", "url": "https://example.com", "title": "Ports", "encrypted_content": "x" * 99}
    return [
        {"type": "server_tool_use", "id": f"srvtoolu_{turn}", "name": "web_search", "input": {"query": "port"}},
        {"type": "web_search_tool_result", "tool_use_id": f"srvtoolu_{turn}", "content": [found]},
    ]


def _result(draw: st.DrawFn, id: str) -> dict[str, Any]:
    content: Any = draw(st.one_of(WORDS, st.just("")) if draw(st.booleans()) else st.none())
    if content is None:
        content = _blocks(draw, 0)
    more = {"is_error": True} if draw(st.integers(0, 5)) == 0 else {}
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


@st.composite
def responses_chats(draw: st.DrawFn, max_turns: int = 5) -> Items:
    """Items: messages with and without ids, reasoning before calls and messages, parallel calls, custom tools."""
    items: Items = []
    if draw(st.booleans()):
        items.append({"role": draw(st.sampled_from(["system", "developer"])), "content": draw(WORDS)})
    for turn in range(draw(st.integers(0, max_turns))):
        if draw(st.booleans()):
            items.append({"role": "user", "content": draw(WORDS) if draw(st.booleans()) else _input(draw, 1)})
        items += _response(draw, turn)
    items.append({"type": "message", "role": "user", "content": _input(draw, 1)})
    return items


def _input(draw: st.DrawFn, least: int) -> Items:
    kinds: Items = [
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "low"},
        {"type": "input_image", "file_id": "file-1", "detail": "auto"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,JVBERi0xLjQ=", "filename": "a.pdf"},
        {"type": "input_file", "file_id": "file-1"},
        {"type": "input_file", "file_url": "https://example.com/a.pdf"},
    ]
    text = WORDS.map(lambda said: {"type": "input_text", "text": said})
    return draw(st.lists(st.one_of(text, text, st.sampled_from(kinds)), min_size=least, max_size=3))


def _response(draw: st.DrawFn, turn: int) -> Items:
    items: Items = []
    calls = draw(st.integers(0, 3))
    for at in range(draw(st.integers(0 if calls else 1, 2))):
        items += _reasoning(draw, f"{turn}_{at}")
        items.append(_message(draw, f"{turn}_{at}"))
    if draw(st.integers(0, 6)) == 0:
        items.append({"type": "web_search_call", "id": f"ws_{turn}", "status": "completed", "action": {"query": "a"}})
    kinds = [draw(st.sampled_from(["function_call", "function_call", "custom_tool_call"])) for _ in range(calls)]
    for at, kind in enumerate(kinds):
        items += _reasoning(draw, f"{turn}_call_{at}")
        text = {"arguments": json.dumps(draw(INPUTS))} if kind == "function_call" else {"input": draw(WORDS)}
        id = f"{'fc' if kind == 'function_call' else 'ctc'}_{turn}_{at}"
        items.append({"type": kind, "id": id, "call_id": f"call_{turn}_{at}", "name": draw(TOOLS), **text})
    outputs: Items = []
    for at, kind in enumerate(kinds):
        output: Any = draw(WORDS) if draw(st.booleans()) else _input(draw, 1)
        outputs.append({"type": f"{kind}_output", "call_id": f"call_{turn}_{at}", "output": output})
    return [*items, *draw(st.permutations(outputs))]


def _reasoning(draw: st.DrawFn, id: str) -> Items:
    if draw(st.booleans()):
        return []
    return [{"type": "reasoning", "id": f"rs_{id}", "summary": [], "encrypted_content": "gAAAA" * 20}]


def _message(draw: st.DrawFn, id: str) -> dict[str, Any]:
    if draw(st.booleans()):
        return {"role": "assistant", "content": draw(WORDS)}
    part = {"type": "output_text", "text": draw(WORDS), "annotations": [], "logprobs": []}
    refusal = {"type": "refusal", "refusal": "I cannot."}
    more: list[Items] = [[], [part], [refusal]]
    content = [part, *draw(st.sampled_from(more))]
    status = {"id": f"msg_{id}", "status": "completed"}
    return {"type": "message", "role": "assistant", "content": content, "phase": "commentary", **status}
