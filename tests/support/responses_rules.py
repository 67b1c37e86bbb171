"""What OpenAI's Responses API accepts as `input`, as one strict function: `broken_rules(items)`.

As in openai_rules: every rule names where it is written down, or where the API was seen to refuse:

    REFERENCE  https://platform.openai.com/docs/api-reference/responses/create, as the package `openai` has it in
               openai/types/responses/response_input_item_param.py and its neighbours
    REASONING  https://platform.openai.com/docs/guides/reasoning: reasoning items go back with what follows them
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openai_rules import unwritable

__all__ = ["broken_rules"]

# REFERENCE: the keys of each item; "Unknown parameter: 'input[1].x'" of any other.
KEYS = {
    "message": {"type", "role", "content", "id", "status", "phase"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
    "function_call": {"type", "id", "call_id", "name", "arguments", "status", "namespace", "caller"},
    "function_call_output": {"type", "id", "call_id", "output", "status", "name", "namespace", "caller"},
    "custom_tool_call": {"type", "id", "call_id", "name", "input", "namespace", "caller"},
    "custom_tool_call_output": {"type", "id", "call_id", "output", "status", "caller"},
    "web_search_call": {"type", "id", "status", "action"},
}
PARTS = {
    "input_text": {"type", "text"},
    "input_image": {"type", "image_url", "file_id", "detail"},
    "input_file": {"type", "file_data", "file_id", "file_url", "filename", "detail"},
    "output_text": {"type", "text", "annotations", "logprobs"},
    "refusal": {"type", "refusal"},
}
INPUT = {"input_text", "input_image", "input_file"}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
IDS = {"reasoning": "rs_", "function_call": "fc_", "message": "msg_", "custom_tool_call": "ctc_"}


def broken_rules(items: Any) -> list[str]:
    """The rules that `input` breaks, each with the place where."""
    if isinstance(items, str):
        return []
    if not isinstance(items, list):
        return ["input: neither a text nor a list"]
    found = [f"input[{at}]{fault}" for at, item in enumerate(items) for fault in _item(item)]
    return found or [*_pairs(items), *_reasoning(items), *_ids(items), *unwritable("input", items)]


def _kind(item: Mapping[str, Any]) -> Any:
    return item.get("type", "message" if "role" in item else None)


def _item(item: Any) -> Iterator[str]:
    if not isinstance(item, dict) or _kind(item) not in KEYS:
        yield ".type: unknown"
        return
    kind = _kind(item)
    yield from (f".{key}: Unknown parameter" for key in item if key not in KEYS[kind])
    if kind == "message":
        yield from _message(item)
    elif kind == "reasoning":
        if not isinstance(item.get("id"), str) or not isinstance(item.get("summary"), list):
            yield ": Missing required parameter: id and summary"
    elif kind.endswith("_output"):
        output = item.get("output")
        if not isinstance(output, str):
            yield from (f".output{fault}" for fault in _parts(output, INPUT))
    elif kind.endswith("tool_call") or kind == "function_call":
        if not isinstance(item.get("name"), str) or not NAME.fullmatch(item["name"]):
            yield ".name: does not match the pattern"
        if not isinstance(item.get("arguments" if kind == "function_call" else "input"), str):
            yield ": arguments or input must be a string"
    if "call_id" in KEYS[kind] and not (isinstance(item.get("call_id"), str) and 1 <= len(item["call_id"]) <= 64):
        yield ".call_id: must be a string of 1 to 64 characters"  # "string too long. Expected ... maximum length 64"


def _message(item: Mapping[str, Any]) -> Iterator[str]:
    role = item.get("role")
    if role not in ("user", "assistant", "system", "developer"):
        yield ".role: unknown"
        return
    if role == "assistant" and "id" in item and ("status" not in item or not isinstance(item.get("content"), list)):
        yield ": an output message needs id, status and a list of content"
    if isinstance(item.get("content"), str):
        if not item["content"].strip():
            yield ".content: blank"
    else:
        # "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'" (openai-agents-python)
        allowed = {"output_text", "refusal"} if role == "assistant" else INPUT
        yield from (f".content{fault}" for fault in _parts(item.get("content"), allowed))


def _parts(parts: Any, allowed: set[str]) -> Iterator[str]:
    if not isinstance(parts, list) or not parts:
        yield ": empty, or no list"
        return
    for at, part in enumerate(parts):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in allowed:
            yield f"[{at}]: Invalid value: {kind!r}"
            continue
        yield from (f"[{at}].{key}: Unknown parameter" for key in part if key not in PARTS[kind])
        text = part.get("refusal" if kind == "refusal" else "text", "a")
        if not isinstance(text, str) or not text.strip():
            yield f"[{at}]: blank"
        if kind == "input_image":
            image = part.get("image_url")
            if not part.get("file_id") and not re.match(r"https?://|data:image/[a-z+.-]+;base64,", str(image)):
                yield f"[{at}].image_url: neither an address nor data of an image"
            if part.get("detail") not in ("auto", "low", "high", "original"):
                yield f"[{at}].detail: missing, or unknown"
        if kind == "input_file" and not part.keys() & {"file_data", "file_id", "file_url"}:
            yield f"[{at}]: no file"


def _pairs(items: Sequence[dict[str, Any]]) -> Iterator[str]:
    """ "No tool output found for function call call_1", "No tool call found for function call output with call_id
    call_1": results stand somewhere behind their calls; here, before anything else is said."""
    open_calls: dict[str, str] = {}
    used: set[str] = set()
    for at, item in enumerate([*items, {"type": "the end"}]):
        kind = _kind(item)
        if kind in ("function_call", "custom_tool_call"):
            if item["call_id"] in used:
                yield f"input[{at}]: two calls have the id {item['call_id']}"
            open_calls[item["call_id"]] = kind
            used.add(item["call_id"])
        elif kind.endswith("_output"):
            if open_calls.pop(item["call_id"], None) != kind.removesuffix("_output"):
                yield f"input[{at}]: No tool call found for the output with call_id {item['call_id']}"
        elif open_calls and (kind == "the end" or item.get("role", "assistant") != "assistant"):
            yield f"input[{at}]: No tool output found for {', '.join(open_calls)}"
            open_calls = {}


def _reasoning(items: Sequence[dict[str, Any]]) -> Iterator[str]:
    """REASONING: "Item 'rs_1' of type 'reasoning' was provided without its required following item"."""
    for at, item in enumerate(items):
        after = items[at + 1] if at + 1 < len(items) else {}
        is_answer = _kind(after) in ("reasoning", "function_call", "custom_tool_call", "web_search_call")
        if _kind(item) == "reasoning" and not is_answer and after.get("role") != "assistant":
            yield f"input[{at}]: Item '{item['id']}' of type 'reasoning' was provided without its following item"


def _ids(items: Sequence[dict[str, Any]]) -> Iterator[str]:
    """ "Duplicate item found with id rs_1", "Expected an ID that begins with 'fc'"."""
    ids = [(_kind(item), item["id"]) for item in items if item.get("id")]
    if len({id for _, id in ids}) != len(ids):
        yield "input: Duplicate item found"
    yield from (f"input: Expected an ID that begins with {IDS[kind]}" for kind, id in ids
                if kind in IDS and not id.startswith(IDS[kind]))  # fmt: skip
