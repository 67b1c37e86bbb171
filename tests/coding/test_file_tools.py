"""What calls of file tools and shells did to files: the shapes of the agents that are in use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tinymem.coding.acts import EDITED, READ, RESET, SCOPE, SEEN, WROTE, Act
from tinymem.coding.lines import code_lines
from tinymem.coding.tools import ARGUMENTS, FILE_TOOLS, acts_of_call
from tinymem.steps.actions import ToolCall

OLD, NEW, KEPT = "limit = 100  # rows", "limit = 500  # rows", "import collections"
NUMBERED = f"     1\t{KEPT}\n     2\t{OLD}\n"
PATCH = f"*** Begin Patch\n*** Update File: /w/app.py\n@@\n {KEPT}\n-{OLD}\n+{NEW}\n*** End Patch"
DIFF = f"--- a/app.py\n+++ b/app.py\n@@ -1,2 +1,2 @@\n {KEPT}\n-{OLD}\n+{NEW}\n"


def acts_of(call: ToolCall) -> list[Act]:
    """What a call did to files, by their paths."""
    found = [act for act in acts_of_call(call) if act.path.startswith(SCOPE)]
    return [act._replace(path=act.path[len(SCOPE) + 17 :]) for act in found]


def codes(*lines: str) -> tuple[int, ...]:
    return tuple(code_lines("\n".join(lines)))


def act(path: str, kind: int, lines: tuple[int, ...] = (), gone: tuple[int, ...] = ()) -> list[Act]:
    return [Act(path, kind, lines, gone)]


BOTH, EDIT = codes(KEPT, OLD), act("/w/app.py", EDITED, codes(NEW), codes(OLD))
CALLS: dict[str, tuple[str, Mapping[str, Any] | str, str, list[Act]]] = {
    # Claude Code
    "Read": ("Read", {"file_path": "/w/app.py"}, f"     1→{KEPT}\n     2→{OLD}", act("/w/app.py", READ, BOTH)),
    "Read a part": (
        "Read", {"file_path": "/w/app.py", "offset": 2, "limit": 1}, f"     2→{OLD}",
        act("/w/app.py", SEEN, codes(OLD)),
    ),
    "Edit": ("Edit", {"file_path": "/w/app.py", "old_string": OLD, "new_string": NEW}, "updated", EDIT),
    "MultiEdit": (
        "MultiEdit", {"file_path": "/w/app.py", "edits": [{"old_string": OLD, "new_string": NEW}]}, "applied", EDIT,
    ),
    "Write": ("Write", {"file_path": "/w/app.py", "content": f"{KEPT}\n{OLD}"}, "", act("/w/app.py", WROTE, BOTH)),
    "NotebookEdit": ("NotebookEdit", {"notebook_path": "/n.ipynb", "new_source": OLD}, "ok", act("/n.ipynb", RESET)),
    "Grep": (
        "Grep", {"pattern": "limit", "path": "/w", "output_mode": "content"}, f"/w/app.py:2:{OLD}",
        act("/w/app.py", SEEN, codes(OLD)),
    ),
    "an edit that failed": (
        "Edit", {"file_path": "/w/app.py", "old_string": OLD, "new_string": NEW},
        "<tool_use_error>String to replace not found in file.</tool_use_error>", act("/w/app.py", SEEN),
    ),
    # Codex
    "apply_patch": ("apply_patch", {"input": PATCH}, "Success. Updated the following files:\nM app.py", EDIT),
    "apply_patch as text": ("apply_patch", PATCH, "Success.", EDIT),
    "apply_patch in a shell": ("shell", {"command": ["apply_patch", PATCH]}, '{"output":"Success."}', EDIT),
    "exec_command": (
        "exec_command", {"cmd": "rg -n limit app.py", "workdir": "/w"}, f"2:{OLD}", act("/w/app.py", SEEN, codes(OLD)),
    ),
    "an error": ("write_file", {"path": "/a", "content": OLD}, json.dumps({"error": "disk full"}), act("/a", SEEN)),
    # Gemini CLI
    "read_file": ("read_file", {"absolute_path": "/w/app.py"}, f"{KEPT}\n{OLD}", act("/w/app.py", READ, BOTH)),
    "replace": ("replace", {"file_path": "/w/app.py", "old_string": OLD, "new_string": NEW}, "Successfully", EDIT),
    "write_file": ("write_file", {"file_path": "/w/app.py", "content": OLD}, "", act("/w/app.py", WROTE, codes(OLD))),
    # OpenHands
    "view": ("str_replace_editor", {"command": "view", "path": "/w/app.py"}, NUMBERED, act("/w/app.py", READ, BOTH)),
    "create": (
        "str_replace_editor", {"command": "create", "path": "/w/app.py", "file_text": OLD}, "New file created",
        act("/w/app.py", WROTE, codes(OLD)),
    ),
    "str_replace": (
        "str_replace_based_edit_tool", {"command": "str_replace", "path": "/w/app.py", "old_str": OLD, "new_str": NEW},
        "The file has been edited.", EDIT,
    ),
    "insert": (
        "str_replace_editor", {"command": "insert", "path": "/w/app.py", "insert_line": 1, "new_str": NEW}, "edited",
        act("/w/app.py", EDITED, codes(NEW)),
    ),
    # MCP file servers
    "MCP read": ("mcp__fs__read_text_file", {"path": "/w/app.py"}, f"{KEPT}\n{OLD}", act("/w/app.py", READ, BOTH)),
    "MCP head": ("fs.read_text_file", {"path": "/w/app.py", "head": 1}, KEPT, act("/w/app.py", SEEN, codes(KEPT))),
    "MCP edit": (
        "mcp__fs__edit_file", {"path": "/w/app.py", "edits": [{"oldText": OLD, "newText": NEW}]}, "```diff", EDIT,
    ),
    # mini-swe-agent, and plain commands
    "cat": ("bash", {"command": "cd /w && cat app.py"}, f"{KEPT}\n{OLD}", act("/w/app.py", READ, BOTH)),
    "cat of what is cut": (
        "bash", {"command": "cat /w/app.py"}, f"{KEPT}\n{OLD}\n[output truncated]",
        act("/w/app.py", SEEN, BOTH + codes("[output truncated]")),
    ),
    "sed -n": ("bash", {"command": "sed -n '1,2p' /w/app.py"}, OLD, act("/w/app.py", SEEN, codes(OLD))),
    "head": ("bash", {"command": "head -n 2 /w/app.py | tail -1"}, OLD, act("/w/app.py", SEEN, codes(OLD))),
    "grep": (
        "bash", {"command": "grep -rn limit src"}, f"src/app.py:2:{OLD}", act("src/app.py", SEEN, codes(OLD)),
    ),
    "heredoc": (
        "bash", {"command": f"cat > /w/app.py <<'EOF'\n{KEPT}\n{OLD}\ncat b.py\nEOF\npython /w/app.py"}, "",
        act("/w/app.py", RESET),
    ),
    "append": ("bash", {"command": "echo 'x = 1' >> /w/app.py"}, "", []),
    "sed -i": ("bash", {"command": "sed -i 's/100/500/' /w/app.py"}, "", act("/w/app.py", RESET)),
    "mv": ("bash", {"command": "mv /w/a.py /w/b.py"}, "", [Act("/w/a.py", RESET), Act("/w/b.py", RESET)]),
    "git checkout": ("bash", {"command": "git checkout -- ."}, "", act("", RESET)),
    "git checkout of a file": ("bash", {"command": "cd /w; git checkout app.py"}, "", act("/w/app.py", RESET)),
    "git stash": ("bash", {"command": "git stash"}, "", act("", RESET)),
    "a new branch": ("bash", {"command": "git checkout -b next"}, "", []),
    "a formatter": ("bash", {"command": "npm run format"}, "", []),
    "a check": ("bash", {"command": "black --check . && pytest -q > /dev/null 2>&1"}, "", []),
    "a patch in a heredoc": ("bash", {"command": f"cd /w && apply_patch <<'EOF'\n{PATCH}\nEOF"}, "", EDIT),
    "a diff": ("patch", {"diff": DIFF}, "ok", act("app.py", EDITED, codes(NEW), codes(OLD))),
    # elsewhere
    "no tool of files": ("weather", {"path": "/w/app.py"}, OLD, []),
    "Windows": (
        "read", {"filePath": "C:\\w\\app.py"}, f"00001| {KEPT}\n00002| {OLD}", act("/c/w/app.py", READ, BOTH),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CALLS)
def test_a_call_says_what_it_did_to_files(case: str) -> None:
    name, arguments, result, expected = CALLS[case]
    assert acts_of(ToolCall(name, arguments, "c", result)) == expected


def test_a_call_without_a_result_names_its_files_and_claims_nothing() -> None:
    arguments = {"file_path": "/w/app.py", "old_string": OLD, "new_string": NEW}
    assert acts_of(ToolCall("Edit", arguments)) == act("/w/app.py", SEEN)
    assert acts_of(ToolCall("Edit", arguments, error="interrupted")) == act("/w/app.py", SEEN)


@pytest.mark.parametrize(
    "command",
    ["cat 'unclosed", "cat <<EOF", "((", "> ", "cat > x <<A\nb\nB", "rm", "git", "sed -i", "FOO= cat", "| cat"],
)
def test_odd_commands_do_no_harm(command: str) -> None:
    acts_of(ToolCall("bash", {"command": command}, "c", "text"))


def test_a_line_of_which_a_copy_was_added_is_not_gone() -> None:
    (found,) = acts_of(
        ToolCall("edit_file", {"path": "a.py", "old_string": OLD, "new_string": f"{OLD}\n{OLD}"}, "c", "ok")
    )
    assert found.gone == () and found.lines == codes(OLD)


def test_a_tool_with_names_of_its_own_is_added_to_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FILE_TOOLS, "fetchnote", "read")
    monkeypatch.setitem(ARGUMENTS, "path", "note")
    assert acts_of(ToolCall("fetch_note", {"note": "/w/app.py"}, "c", OLD)) == act("/w/app.py", READ, codes(OLD))


def test_a_huge_call_says_what_is_sure_in_linear_time() -> None:
    """Each of these took from seconds to minutes."""
    old, new = ("\n".join(f"{word} {n} of a long file" for n in range(4_000)) for word in ("line", "row"))
    edited = ToolCall("Edit", {"file_path": "/a", "old_string": old, "new_string": new}, observation="ok")
    assert [len(found.gone) for found in acts_of(edited)] == [4_000]
    texts = ToolCall("bash", {"command": "cat <<EOF > /a\n" * 4_000}, observation="ok")
    assert acts_of(texts) == act("", RESET)
    blank = ToolCall("Read", {"file_path": "/a"}, observation=(" " * 1_000 + "\n") * 2_000)
    assert acts_of(blank) == act("/a", READ)
