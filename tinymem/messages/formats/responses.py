"""Items as OpenAI's Responses API has them.

An answer of the model is several items there (reasoning, messages, calls), and one message in a chat: they stay
together, so that no reasoning item loses the item that it belongs to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from tinymem.errors import MessageError, describe_type, safe_repr
from tinymem.messages.calls import name_and_arguments, raw_calls
from tinymem.messages.formats.conversation import ItemConversation, Placed
from tinymem.messages.formats.parts import (
    answer_of,
    blocks_of,
    joined,
    mark,
    rewritten,
    said,
    strings,
    text_part,
    texts_of,
)
from tinymem.messages.validity import file_of, image_of
from tinymem.steps.content import as_text, to_json
from tinymem.steps.step import Message

__all__ = ["ResponsesConversation", "kind_of_item"]

ELSEWHERE = ("item_reference", "compaction", "context_compaction", "compaction_trigger")
CALLS = {  # answered by an item of the client: the key of the id
    "function_call": "call_id", "custom_tool_call": "call_id", "computer_call": "call_id",
    "local_shell_call": "call_id", "shell_call": "call_id", "apply_patch_call": "call_id", "mcp_approval_request": "id",
}  # fmt: skip
OUTPUTS = {
    "function_call_output": "call_id", "custom_tool_call_output": "call_id", "computer_call_output": "call_id",
    "local_shell_call_output": "id", "shell_call_output": "call_id", "apply_patch_call_output": "call_id",
    "mcp_approval_response": "approval_request_id",
}  # fmt: skip
HOSTED = {  # run and answered by OpenAI
    "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call",
    "tool_search_call", "tool_search_output", "program", "program_output",
}  # fmt: skip
SILENT = {"reasoning", "mcp_list_tools"}  # nothing that was said
_ANSWER = {"message:assistant", *CALLS, *HOSTED, *SILENT}  # what is part of an answer
_FUNCTIONS = ("function_call", "custom_tool_call")
_OUTPUTS_OF_PARTS = ("function_call_output", "custom_tool_call_output", "computer_call_output")
_FRAME = {"type", "id", "call_id", "status", "result", "pending_safety_checks", "caller", "encrypted_content"}
_MEDIA = ("input_image", "input_file", "input_audio")
_TEXTS = ("input_text", "output_text", "text", "summary_text")


class ResponsesConversation(ItemConversation):
    """Input and output items, dicts or objects of the SDK."""

    format: ClassVar[str] = "responses"

    def _read(self) -> list[tuple[Message, list[dict[str, Any]]]]:
        starts: list[int] = []
        answer: set[str] = set()  # kinds of the items of an answer so far
        for index, kind in enumerate(map(kind_of_item, self.items)):
            is_said = "message:assistant" in answer and answer.isdisjoint(CALLS)
            is_next = kind in ("reasoning", "message:assistant") and is_said
            if is_next or not answer or kind not in _ANSWER:
                starts.append(index)
                answer = set()
            answer |= {kind} & _ANSWER
        spans = pairwise([*starts, len(self.items)])
        return [(_message(items := self.items[start:end], start), items) for start, end in spans]

    def _written(
        self, placed: Sequence[Placed], stable: int, cache_control: Mapping[str, Any] | None
    ) -> list[dict[str, Any]]:
        custom: set[str] = set()
        found: list[dict[str, Any]] = []
        for entry in placed:
            items = None if entry.input is None else self.read_of[entry.input]
            if items is None:
                items = items_from(entry.message, custom)
            elif entry.shortened:
                items = _shortened(items, entry.message)
            custom |= {item["call_id"] for item in items if item.get("type") == "custom_tool_call"}
            found += items
        return found


def _message(items: Sequence[dict[str, Any]], start: int) -> Message:
    """Return the message of the items of an answer, or of a single other one."""
    kind = kind_of_item(items[0])
    if kind not in _ANSWER:
        return _single(items[0], start, kind)
    parts: list[Message] = []
    calls: list[Message] = []
    for index, item in enumerate(items, start):
        kind = kind_of_item(item)
        if kind in CALLS:
            calls.append(call_of(item, kind, index))
        else:
            parts += _said_in(item, index)
    return answer_of(said(parts), calls)


def _single(item: dict[str, Any], index: int, kind: str) -> Message:
    """Return the message of an item that is no part of an answer."""
    if kind in OUTPUTS:
        return output_of(item, kind, index)
    if kind.startswith("message:"):
        return {"role": item["role"], "content": said(_said_in(item, index))}
    if kind in ELSEWHERE:
        raise MessageError(
            f"a {kind} stands for items that are not in the list: give all items, with the encrypted content "
            "of reasoning included, and without compaction",
            index,
        )
    raise MessageError(
        f"an item of the unknown type {safe_repr(item.get('type'))}, with {describe_type(item.get('role'))} as role: "
        "leave it out, or name another format",
        index,
    )


def _shortened(items: Sequence[dict[str, Any]], message: Message) -> list[dict[str, Any]]:
    """Return `items` as the message says them now; reasoning, and calls of no function, stay as they are."""
    content = message.get("content")
    if message["role"] == "assistant":
        calls = iter(raw_calls(message))
        others: list[dict[str, Any]] = []
        new: list[dict[str, Any]] = []
        for item in items:
            kind = kind_of_item(item)
            if kind not in CALLS:
                others.append(item)
                continue
            call = next(calls)
            new.append(_call_item(call) if kind in _FUNCTIONS else item)
        return [*rewritten(others, _said_in, texts_of(content), _answer), *new]
    key = "output" if message["role"] == "tool" else "content"
    now: Any = as_text(content)
    before = items[0].get(key)
    if before and kind_of_item(items[0]) == "shell_call_output":
        now = [{**before[-1], "stdout": now, "stderr": ""}]
    elif isinstance(before, list):
        now = rewritten(before, _said_in, texts_of(content), input_text)
    elif not isinstance(before, str):
        return [*items]
    return [{**items[0], key: now}]


def _said_in(native: dict[str, Any], index: int = 0) -> list[Message]:
    """Return the parts of a chat's message that an item, or a part of content, is."""
    kind = kind_of_item(native)
    if kind in HOSTED:
        return [text_part(hosted_text(native, kind))]
    if kind.startswith("message:"):
        return [_part(part, index) for part in blocks_of(native.get("content"), index)]
    return [] if kind in SILENT or kind in ("refusal", "unknown") else [_part(native, index)]


def _answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def kind_of_item(item: Mapping[str, Any]) -> str:
    """Return the type of an item, of a message with its role: `"message:user"`."""
    kind, role = item.get("type"), item.get("role")
    if kind in ("message", None) and role in ("user", "assistant", "system", "developer"):
        return f"message:{role}"
    return kind if isinstance(kind, str) else "unknown"


# -- read -------------------------------------------------------------------------------------------------------------


def _part(part: dict[str, Any], index: int) -> Message:
    kind = part.get("type")
    if kind in _TEXTS and isinstance(part.get("text"), str):
        return text_part(part["text"])
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return {"type": "refusal", "refusal": part["refusal"]}
    if kind in ("input_image", "computer_screenshot"):
        return image_of(part) or mark("image", part.get("file_id"))
    if kind == "input_file":
        return file_of(part) or mark("file", part.get("filename"), part.get("file_url"))
    if kind == "input_audio":
        return dict(part)
    raise MessageError(f"a part of the unknown type {safe_repr(kind)}: leave it out, or name another format", index)


def call_of(item: Mapping[str, Any], kind: str, index: int) -> Message:
    """Return a call as a chat has it."""
    id, name = _id_of(item, kind, CALLS[kind], index), item.get("name") or kind.removesuffix("_call")
    if kind == "custom_tool_call":
        return {"id": id, "type": "custom", "custom": {"name": name, "input": item.get("input") or ""}}
    arguments = item.get("arguments")
    if not isinstance(arguments, str):
        arguments = to_json({key: value for key, value in item.items() if key not in _FRAME})
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _id_of(item: Mapping[str, Any], kind: str, key: str, index: int) -> str:
    id = item.get(key)
    if not isinstance(id, str) or not id:
        raise MessageError(f"a {kind} must have a {key}", index)
    return id


def output_of(item: Mapping[str, Any], kind: str, index: int) -> Message:
    """Return the result of a call as a chat has it."""
    id, output = _id_of(item, kind, OUTPUTS[kind], index), item.get("output")
    if isinstance(output, Mapping):
        output = [dict(output)]
    content: Any = output if isinstance(output, str) else joined(output)
    if isinstance(output, list) and all(isinstance(part, dict) for part in output):
        content = said([_part(part, index) for part in output] if kind in _OUTPUTS_OF_PARTS else [text_part(content)])
    elif kind == "mcp_approval_response":
        content = " ".join(["approved" if item.get("approve") else "denied", *strings(item.get("reason"))])
    return {"role": "tool", "tool_call_id": id, "content": content}


def hosted_text(item: Mapping[str, Any], kind: str) -> str:
    """Return what a tool that OpenAI ran was asked, and answered, as text."""
    return f"{kind}: {to_json({key: value for key, value in item.items() if key not in _FRAME and value is not None})}"


# -- made of messages -------------------------------------------------------------------------------------------------


def items_from(message: Message, custom: Collection[str] = ()) -> list[dict[str, Any]]:
    """Make items of a message of a chat; results of calls in `custom` answer custom tools.

    >>> items_from({"role": "tool", "tool_call_id": "call_1", "content": "ok"})
    [{'type': 'function_call_output', 'call_id': 'call_1', 'output': 'ok'}]
    """
    role, content = message["role"], message.get("content")
    if role == "tool":
        kind = "custom_tool_call_output" if message["tool_call_id"] in custom else "function_call_output"
        return [{"type": kind, "call_id": message["tool_call_id"], "output": _input(content)}]
    if role != "assistant":
        return [{"role": role, "content": _input(content)}]
    spoken = [{"role": role, "content": as_text(content)}] if as_text(content).strip() else []
    return [*spoken, *(_call_item(call) for call in raw_calls(message))]


def _call_item(call: Mapping[str, Any]) -> dict[str, Any]:
    name, arguments = name_and_arguments(call)
    if call.get("type") == "custom":
        return {"type": "custom_tool_call", "call_id": call["id"], "name": name, "input": arguments}
    return {"type": "function_call", "call_id": call["id"], "name": name, "arguments": arguments}


def _input(content: Any) -> Any:
    """Return content as input has it."""
    return [_input_part(part) for part in content] if isinstance(content, list) else content or ""


def _input_part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] == "image_url":
        image = part["image_url"]
        return {"type": "input_image", "image_url": image["url"], "detail": image.get("detail", "auto")}
    if part["type"] == "file":
        return {"type": "input_file", **part["file"]}
    return input_text(as_text([part]) if part["type"] != "input_audio" else "[audio]")


def input_text(text: str) -> dict[str, Any]:
    """Return a part of text as input has it."""
    return {"type": "input_text", "text": text}
