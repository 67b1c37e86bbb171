"""The events that hooks are run at: a client's name of each, and ours."""

__all__ = ["CODEX_EVENTS", "EVENTS", "GEMINI_EVENTS", "OURS", "TOOLS"]

_EVENTS = """
session-start           SessionStart        SessionStart        SessionStart
prompt                  UserPromptSubmit    UserPromptSubmit    BeforeAgent
pre-compact             PreCompact          PreCompact          PreCompress
stop                    Stop                Stop                AfterAgent
subagent-stop           SubagentStop        -                   -
session-end             SessionEnd          -                   SessionEnd
pre-tool-use            PreToolUse          PreToolUse          -
post-tool-use           -                   PostToolUse         AfterTool
post-tool-use-failure   PostToolUseFailure  -                   -
"""  # ours, and those of Claude Code, Codex and Gemini CLI
_NAMES, *_CLIENTS = zip(*map(str.split, _EVENTS.strip().splitlines()), strict=True)
OURS = frozenset(_NAMES)


def _named_by(client: tuple[str, ...]) -> dict[str, str]:
    return {name: ours for name, ours in zip(client, _NAMES, strict=True) if name != "-"}


EVENTS, CODEX_EVENTS, GEMINI_EVENTS = map(_named_by, _CLIENTS)
TOOLS = {  # those at whose use an event is told of
    "PreToolUse": "Edit|MultiEdit|Write|NotebookEdit|apply_patch", "AfterTool": "run_shell_command",
    "PostToolUse": "Bash", "PostToolUseFailure": "Bash",
}  # fmt: skip
