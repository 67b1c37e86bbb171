"""The events that hooks are run at: a client's name of each, and ours."""

__all__ = ["CODEX_EVENTS", "EVENTS", "GEMINI_EVENTS", "TOOLS"]

EVENTS = {
    "SessionStart": "session-start", "UserPromptSubmit": "prompt", "PreCompact": "pre-compact", "Stop": "stop",
    "SubagentStop": "subagent-stop", "SessionEnd": "session-end", "PreToolUse": "pre-tool-use",
    "PostToolUseFailure": "post-tool-use-failure",
}  # fmt: skip
CODEX_EVENTS = {
    "SessionStart": "session-start", "UserPromptSubmit": "prompt", "PreCompact": "pre-compact", "Stop": "stop",
    "PreToolUse": "pre-tool-use", "PostToolUse": "post-tool-use",
}  # fmt: skip
GEMINI_EVENTS = {
    "SessionStart": "session-start", "BeforeAgent": "prompt", "PreCompress": "pre-compact", "AfterAgent": "stop",
    "SessionEnd": "session-end", "AfterTool": "post-tool-use",
}  # fmt: skip
TOOLS = {  # those at whose use an event is told of
    "PreToolUse": "Edit|MultiEdit|Write|NotebookEdit|apply_patch", "PostToolUse": "Bash", "PostToolUseFailure": "Bash",
    "AfterTool": "run_shell_command",
}  # fmt: skip
