"""What OpenAI's chat completions API accepts as `messages`, as one strict function: `broken_rules(messages)`.

It knows nothing of tinymem and nothing of any model: a list of dicts goes in, a list of broken rules comes out, empty
where the API would take the request. Every rule names where it is written down, or where the API was seen to refuse:

    REFERENCE  https://platform.openai.com/docs/api-reference/chat/create, as the package `openai` has it in types:
               openai/types/chat/chat_completion_*_message_param.py and chat_completion_content_part_*_param.py
    an issue   one in which somebody quotes the API's answer, with the status 400

Where the API is lenient and others who speak its language are not (Anthropic behind an adapter, Groq, Mistral, vLLM),
the stricter rule is taken, and says so. Rules that depend on a model (which have vision, which take `developer`) are
none of its business, nor is the number of tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["broken_rules", "unwritable"]

# REFERENCE: the keys that each role's message may have. Others are refused: "property 'reasoning_content' is
# unsupported" (janhq/jan#8136, Groq), "Extra inputs are not permitted" (charmbracelet/crush#1590, Mistral),
# "The OpenAI API actually rejects unknown parameters" (spring-projects/spring-ai#5266). The role `function`, and with
# it `function_call`, is deprecated, and refused by newer models (TheR1D/shell_gpt#717): no rule allows it.
KEYS = {
    **{role: {"role", "content", "name"} for role in ("system", "developer", "user")},
    "assistant": {"role", "content", "name", "refusal", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
# REFERENCE: the parts that content may be made of. "Image URLs are only allowed for messages with role 'user', but
# this message with role 'tool' contains an image URL" (OpenHands/OpenHands#7700; for `assistant`: openai-node#1030).
PARTS = {
    **{role: {"text"} for role in ("system", "developer", "tool")},
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
}
# "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'" of a speaker's name (jekalmin/
# extended_openai_conversation#251) and of a tool's (CherryHQ/cherry-studio#2895); "maximum length 64"
# (home-assistant/core#121325).
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# "Invalid 'messages[10].tool_calls[0].id': string too long. Expected a string with maximum length 40" (agno-agi/
# agno#5382). Anthropic: "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'" (maximhq/bifrost#5097).
ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")


def broken_rules(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rules that `messages` break, each with the place where; empty when the API accepts them."""
    found: list[str] = []
    for at, message in enumerate(messages):
        found += [f"messages[{at}]{fault}" for fault in _message(message)]
    return found or [*_order(messages), *_ids(messages), *unwritable("messages", messages)]


def _message(message: object) -> Iterator[str]:
    if not isinstance(message, dict) or message.get("role") not in KEYS:
        yield ": not a dict with a role of " + ", ".join(KEYS)
        return
    role = message["role"]
    yield from (f".{key}: unknown parameter" for key in message if key not in KEYS[role])
    # REFERENCE: what may be left out is a string when it is there, save for the content of a message with calls. (An
    # assistant's `refusal` may be null too, which says nothing.)
    yield from (f".{key}: null" for key, value in message.items() if value is None and key != "content")
    yield from _content(role, message)
    if isinstance(message.get("name", "a"), str) and not NAME.fullmatch(message.get("name", "a")):
        yield ".name: does not match the pattern"
    if "refusal" in message and not isinstance(message["refusal"], str):
        yield ".refusal: not a string"
    if "tool_calls" in message:
        yield from _calls(message["tool_calls"])
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield ".tool_call_id: missing, or not a string"


def _content(role: str, message: Mapping[str, Any]) -> Iterator[str]:
    """REFERENCE: a string or a list of parts, "required unless `tool_calls` or `function_call` is specified"."""
    content = message.get("content")
    if content is None:
        if not message.get("tool_calls"):  # "expected a string, got null" (vercel/ai#14950)
            yield ".content: null, or missing"
    elif isinstance(content, list):
        if not content:  # "empty array. Expected an array with minimum length 1" (langchain-ai/langchainjs#11416)
            yield ".content: empty array"
        for at, part in enumerate(content):
            yield from (f".content[{at}]{fault}" for fault in _part(role, part))
    elif not isinstance(content, str):
        yield ".content: neither a string nor an array"
    elif role != "tool" and not content.strip():
        # Anthropic: "text content blocks must contain non-whitespace text" (home-assistant/core#175637), which a blank
        # beside calls becomes in adapters (NousResearch/hermes-agent#11929). A tool may return nothing.
        yield ".content: blank"


def _part(role: str, part: object) -> Iterator[str]:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or kind not in PARTS[role]:
        # "Missing required parameter: 'messages[3].content[0].type'" (langchain-ai/langgraphjs#506)
        yield f": type {kind!r} is not allowed in the role {role}"
        return
    yield from (f".{key}: unknown parameter" for key in part if key not in ("type", kind))
    value = part.get(kind)
    if kind in ("text", "refusal"):
        # Anthropic: "messages: text content blocks must be non-empty" (miurla/morphic#83)
        if not isinstance(value, str) or not value.strip():
            yield f".{kind}: not a string with something in it"
    elif not isinstance(value, dict):  # "expected an object, but got a string instead" (microsoft/promptflow#3946)
        yield f".{kind}: not an object"
    else:
        yield from (f".{kind}{fault}" for fault in {"image_url": _image, "file": _file}.get(kind, _audio)(value))


def _image(image: Mapping[str, Any]) -> Iterator[str]:
    """REFERENCE: "Either a URL of the image or the base64 encoded image data", and a level of detail."""
    url = image.get("url")
    if not isinstance(url, str) or not re.match(r"https?://|data:image/[a-z+.-]+;base64,", url):
        yield ".url: neither an address nor data of an image"
    if image.get("detail", "auto") not in ("auto", "low", "high", "original"):
        yield ".detail: unknown"
    yield from (f".{key}: unknown parameter" for key in image if key not in ("url", "detail"))


def _file(file: Mapping[str, Any]) -> Iterator[str]:
    if not {"file_id", "file_data"} & file.keys():
        yield ": neither file_id nor file_data"
    yield from (f".{key}: not a string" for key, value in file.items() if not isinstance(value, str))
    yield from (f".{key}: unknown parameter" for key in file if key not in ("file_id", "file_data", "filename"))


def _audio(audio: Mapping[str, Any]) -> Iterator[str]:
    if audio.keys() != {"data", "format"} or not isinstance(audio.get("data"), str):
        yield ": needs data and format, and nothing else"
    if audio.get("format") not in ("wav", "mp3"):
        yield ".format: neither wav nor mp3"


def _calls(calls: object) -> Iterator[str]:
    if not isinstance(calls, list) or not calls:
        # "Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length 1" (openai-node#1341)
        yield ".tool_calls: not an array with a call in it"
        return
    for at, call in enumerate(calls):
        yield from (f".tool_calls[{at}]{fault}" for fault in _call(call))


def _call(call: object) -> Iterator[str]:
    """REFERENCE: id, type and what the type is called, all required, nothing else."""
    kind = call.get("type") if isinstance(call, dict) else None
    if not isinstance(call, dict) or kind not in ("function", "custom") or call.keys() != {"id", "type", kind}:
        yield ": must have id, type, and function or custom, and nothing else"
        return
    if not isinstance(call["id"], str) or not ID.fullmatch(call["id"]):
        yield ".id: does not match the pattern, or is too long"
    called, text = call[kind], "arguments" if kind == "function" else "input"
    if not isinstance(called, dict) or called.keys() != {"name", text}:
        yield f".{kind}: must have name and {text}, and nothing else"
        return
    if not isinstance(called["name"], str) or not NAME.fullmatch(called["name"]):
        yield f".{kind}.name: does not match the pattern"
    if not isinstance(called[text], str):
        # "Invalid type for 'messages[2].tool_calls[0].function.arguments': expected a string, but got an object
        # instead" (aaif-goose/goose-mobile#20)
        yield f".{kind}.{text}: not a string"
    elif kind == "function" and not _is_object(called[text]):
        # OpenAI takes any string; vLLM parses the arguments of all calls in a history (vllm-project/vllm#43995), and
        # SGLang wants an object (sgl-project/sglang#28035), as do adapters to Anthropic, whose `input` is one.
        yield ".function.arguments: not the text of a JSON object"


def _is_object(text: str) -> bool:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    try:
        return isinstance(json.loads(text, parse_constant=refuse), dict)
    except (ValueError, RecursionError):
        return False


def _order(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """ "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'"
    (agno-agi/agno#3105), and "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
    (TheR1D/shell_gpt#717): results stand behind their calls with nothing between. In the order of the calls, since
    templates of open models take them by their place."""
    waiting: list[str] = []
    for at, message in enumerate([*messages, {"role": "the end"}]):
        if message["role"] == "tool":
            if waiting[:1] != [message["tool_call_id"]]:
                yield f"messages[{at}]: a result that is not of the next call without one"
            waiting = waiting[1:]
            continue
        if waiting:
            yield f"messages[{at}]: calls before it have no result: {', '.join(waiting)}"
        waiting = [call["id"] for call in message.get("tool_calls", ())]


def _ids(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """ "Invalid parameter: Duplicate value for 'tool_call_id'" (agno-agi/agno#5116). Over turns OpenAI lets it pass;
    Gemini does not (oguzbilgic/kern-ai#412), nor Anthropic: "`tool_use` ids must be unique" (trycua/cua#524)."""
    used: set[str] = set()
    for at, message in enumerate(messages):
        for call in message.get("tool_calls", ()):
            if call["id"] in used:
                yield f"messages[{at}]: two calls have the id {call['id']}"
            used.add(call["id"])


def unwritable(name: str, body: object) -> Iterator[str]:
    """The body is JSON (RFC 8259) in UTF-8: lone surrogates end in a UnicodeEncodeError at home, or in "The request
    body is not valid JSON: no low surrogate in string" (anomalyco/opencode#13988)."""
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError) as error:
        yield f"{name}: cannot be written as JSON in UTF-8 ({type(error).__name__})"
