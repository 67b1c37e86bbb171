"""The events that hooks are run at: a client's name of each, and ours."""

__all__ = ["CODEX_EVENTS", "COPILOT_EVENTS", "EVENTS", "GEMINI_EVENTS", "OURS", "QWEN_EVENTS", "TOOLS"]

_EVENTS = """
session-start         SessionStart       SessionStart       SessionStart       -                  SessionStart
prompt                UserPromptSubmit   UserPromptSubmit   BeforeAgent        UserPromptSubmit   UserPromptSubmit
pre-compact           PreCompact         PreCompact         PreCompress        PreCompact         PreCompact
stop                  Stop               Stop               AfterAgent         Stop               Stop
subagent-stop         SubagentStop       -                  -                  SubagentStop       -
session-end           SessionEnd         -                  SessionEnd         SessionEnd         SessionEnd
pre-tool-use          PreToolUse         PreToolUse         -                  -                  -
post-tool-use         -                  PostToolUse        AfterTool          PostToolUse        PostToolUse
post-tool-use-failure PostToolUseFailure -                  -                  -                  -
"""  # ours, and those of Claude Code, Codex, Gemini CLI; Qwen Code, which drops what others of its hooks print; and
# Copilot CLI, which refuses an edit where the hook before it fails, as one does whose program is gone
_NAMES, *_CLIENTS = zip(*map(str.split, _EVENTS.strip().splitlines()), strict=True)
OURS = frozenset(_NAMES)


def _named_by(client: tuple[str, ...]) -> dict[str, str]:
    return {name: ours for name, ours in zip(client, _NAMES, strict=True) if name != "-"}


EVENTS, CODEX_EVENTS, GEMINI_EVENTS, QWEN_EVENTS, COPILOT_EVENTS = map(_named_by, _CLIENTS)
TOOLS = {  # those at whose use an event is told of
    "PreToolUse": "Edit|MultiEdit|Write|NotebookEdit|apply_patch", "AfterTool": "run_shell_command",
    "PostToolUse": "Bash|run_shell_command", "PostToolUseFailure": "Bash",
}  # fmt: skip
