"""The events that hooks are run at: a client's name of each, and ours."""

__all__ = ["EVENTS", "GEMINI_EVENTS"]

EVENTS = {
    "SessionStart": "session-start", "UserPromptSubmit": "prompt", "PreCompact": "pre-compact", "Stop": "stop",
    "SubagentStop": "subagent-stop", "SessionEnd": "session-end",
}  # fmt: skip
GEMINI_EVENTS = {
    "SessionStart": "session-start", "BeforeAgent": "prompt", "PreCompress": "pre-compact", "AfterAgent": "stop",
    "SessionEnd": "session-end",
}  # fmt: skip
