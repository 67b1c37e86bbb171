"""Files that changed: a line that stands there no more does not come back as if it did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from memories import open_memory, texts_in

from tinymem import ActionStep, HierarchicalMemory, MessageStep, ToolCall
from tinymem.errors import InputError
from tinymem.messages.tokens import counter_from

FILE = "/w/settings.py"
OLD = 'QUARANTINE_BUCKET = "cellar-cobalt"'
NEW = 'QUARANTINE_BUCKET = "attic-saffron"'
LINES = ["import quarantine_policy", OLD, "QUARANTINE_DAYS = 90  # as the auditors ask", "QUARANTINE_OWNER = 'nora'"]
ASKED = "quarantine bucket days owner policy"


def act(name: str, result: str = "ok", **arguments: object) -> ActionStep:
    return ActionStep("", [ToolCall(name, {"file_path": FILE, **arguments}, observation=result)])


def read(*lines: str) -> ActionStep:
    return act("Read", "\n".join(f"{n}\t{line}" for n, line in enumerate(lines, 1)))


def edit(old: str, new: str) -> ActionStep:
    return act("Edit", old_string=old, new_string=new)


def shown(memory: HierarchicalMemory, step: int = 1) -> str:
    """What a recall shows of what a step brought back."""
    found = ((item, item.step.parts()[item.part].kind) for item in memory.recall(ASKED, 300))
    return "".join(item.text for item, kind in found if (item.step.step_number, kind) == (step, "observation"))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    with open_memory(tmp_path) as opened:
        opened.archive([read(*LINES)])
        yield opened


def test_a_line_that_an_edit_took_away_is_left_out_and_a_mark_says_by_which_step(memory: HierarchicalMemory) -> None:
    assert OLD in shown(memory)
    memory.archive([edit(OLD, NEW)])
    assert shown(memory) == f"1\t{LINES[0]}\n[changed by #2]\n3\t{LINES[2]}\n4\t{LINES[3]}"
    found = memory.recall(ASKED, 300)
    assert shown(memory) in found.text and found.tokens == counter_from(None).count(found.text) <= 300
    assert {mark for item in found for _, _, mark in item.gone} == {"changed by #2"}


def test_a_step_that_is_opened_is_shown_as_it_was_with_a_note(memory: HierarchicalMemory) -> None:
    change = memory.archive([edit(OLD, NEW)])[0]
    assert memory.recall(ASKED, 300)
    opened = memory.open(1)
    assert OLD in opened and ", changed by #2]" in opened
    assert "changed" not in memory.open(change.id) and memory.get(1).text.count(OLD) == 1


def test_a_line_that_a_later_read_lacks_is_marked_and_one_that_comes_back_is_not(memory: HierarchicalMemory) -> None:
    memory.archive([read(LINES[0], *LINES[2:])])
    assert "[changed since, see #2]" in memory.recall(ASKED, 300).text
    memory.archive([edit(LINES[0], f"{LINES[0]}\n{OLD}")])
    assert "changed" not in memory.recall(ASKED, 300).text


def test_a_passage_of_which_nothing_stands_is_left_out(memory: HierarchicalMemory) -> None:
    new = [line.replace("QUARANTINE", "ISOLATION").replace("quarantine", "isolation") for line in LINES]
    memory.archive([act("Write", content="\n".join(new))])
    found = memory.recall("what is the quarantine bucket of cellar cobalt", 300, min_relevance=0)
    assert "ISOLATION_BUCKET" in found.text and OLD not in found.text and "changed by" not in found.text


def test_a_result_that_comes_later_belongs_to_its_call(tmp_path: Path) -> None:
    with open_memory(tmp_path) as memory:
        memory.add(ActionStep("", [ToolCall("Read", {"file_path": FILE}, "c1")]))
        memory.add(MessageStep("tool", "\n".join(LINES), "c1"))
        memory.add(ActionStep("", [ToolCall("Edit", {"file_path": FILE, "old_string": OLD, "new_string": NEW}, "c2")]))
    with open_memory(tmp_path) as memory:
        assert "changed" not in memory.recall(ASKED, 300).text
        memory.add(MessageStep("tool", "The file was updated.", "c2"))
        assert "[changed by #4]" in shown(memory, step=2)


def bash(command: str, result: str) -> ActionStep:
    return ActionStep("", [ToolCall("Bash", {"command": command}, observation=result)])


FAILURE = bash("cd /w && uv run pytest till -x", "Exit code 1\nE  database of the till is locked\n1 failed in 2.1s")
LATER = "later: #2 uv run pytest till -x passed"


def test_a_failure_says_what_passed_later_once_inside_the_budget(tmp_path: Path) -> None:
    with open_memory(tmp_path) as memory:
        memory.archive([FAILURE])
        assert "later" not in memory.recall("database of the till is locked", 300).text
        memory.archive([bash("cd /w && uv run pytest till -x", "3 passed in 2.0s")])
        for budget in range(60, 200, 7):
            found = memory.recall("database of the till is locked", budget, min_relevance=0)
            assert found.tokens == counter_from(None).count(found.text) <= budget
        assert f"#1 Bash:\n[{LATER}]\nExit code 1\n" in found.text and found.text.count("[later") == 1
        assert f", {LATER}]\n" in memory.open(1)
        assert next(item.text for item in found if item.gone).startswith(f"[{LATER}]\nExit code 1")


def test_of_a_long_failure_one_mark_stands_before_what_adjoins(tmp_path: Path) -> None:
    lines = "\n".join(f"E  the till is locked, try {n}: {Random(n).random()}" for n in range(60))
    with open_memory(tmp_path) as memory:
        memory.archive([bash("pytest till", f"Exit code 1\n{lines}"), bash("pytest till", "3 passed")])
        found = memory.recall("the till is locked", 4_000, min_relevance=0)
        assert found.tokens == counter_from(None).count(found.text) and found.text.count("[later") == 1
        (item,) = (item for item in found if item.gone)
        assert item.text == f"[later: #2 pytest till passed]\nExit code 1\n{lines}"


def test_what_passed_is_no_longer_named_once_it_is_forgotten(tmp_path: Path) -> None:
    with open_memory(tmp_path) as memory:
        passed = memory.archive([FAILURE, bash("cd /w && uv run pytest till -x | tail -7", "3 passed")])[1]
        assert "[later" in memory.recall("database of the till is locked", 300).text
        memory.forget(passed.id)
        assert "[later" not in memory.recall("database of the till is locked", 300).text
        assert not any(texts_in(tmp_path, b"tail -7").values())


def hashes_in(folder: Path, line: str) -> list[str]:
    return texts_in(folder, crc32(line.encode()).to_bytes(4, "little")).popitem()[1]


def test_no_hash_of_a_line_of_a_forgotten_step_is_left_in_any_file(memory: HierarchicalMemory, tmp_path: Path) -> None:
    change = memory.archive([edit(OLD, NEW)])[0]
    assert memory.recall(ASKED, 300) and hashes_in(tmp_path, NEW)
    memory.forget(change.id)
    assert not hashes_in(tmp_path, NEW)
    assert OLD in shown(memory)


def test_a_memory_remembers_what_keeps_track_of_its_changes(tmp_path: Path) -> None:
    for given, kept, other in (("none", "none", "coding"), (None, "coding", "none")):
        path = tmp_path / kept
        with open_memory(path, changes=given) as memory:
            memory.archive([read(*LINES), edit(OLD, NEW)])
        for again in (None, kept):
            with open_memory(path, changes=again) as memory:
                assert ("changed by" in memory.recall(ASKED, 300).text) == (kept == "coding")
        with pytest.raises(InputError, match=f"was made with changes='{kept}', not '{other}'"):
            open_memory(path, changes=other)
    for wrong, said in (("codng", "did you mean 'coding'"), ("coding:fast", "takes no argument, but 'fast' was given")):
        with pytest.raises(InputError, match=said):
            open_memory(tmp_path / "wrong", changes=wrong)


def test_what_held_at_a_moment_comes_back_without_marks_of_later(tmp_path: Path) -> None:
    with open_memory(tmp_path) as memory:
        for hour, step in enumerate((read(*LINES), edit(OLD, NEW), edit(NEW, NEW.replace("attic", "barn")))):
            memory.archive([step.evolve(timestamp=f"2025-03-01T{hour:02}:00:00Z")])
        noted = {
            hour: memory.recall(ASKED, as_of=f"2025-03-01T{hour:02}:30:00Z", min_relevance=0).text for hour in range(3)
        }
        assert OLD in noted[0] and "changed by" not in noted[0]
        assert OLD in memory.explain(ASKED, as_of="2025-03-01T00:30:00Z").recalled.text
        assert OLD not in noted[1] and "[changed by #2]" in noted[1] and NEW.split()[-1][1:-1] in noted[1]
        assert "[changed by #3]" in noted[2] and not memory.recall(ASKED, as_of=0).items
        with pytest.raises(InputError, match="not both"):
            memory.recall(ASKED, until="2025-03-01", as_of="2025-03-01")


def test_the_command_of_a_mark_is_redacted(tmp_path: Path) -> None:
    runs = [bash("deploy --key k-77120 west", result) for result in ("Exit code 1\nboom", "1 passed")]
    with open_memory(tmp_path, redact=lambda text: text.replace("k-77120", "KEY")) as memory:
        memory.archive(runs)
        assert "[later: #2 deploy --key KEY west passed]" in memory.recall("deploy west", min_relevance=0).text
    assert not any(texts_in(tmp_path, b"k-77120").values())


OTHER = "\n".join(
    ["A blog on gardening and soil.", "Posts are written in Markdown here.", "Deploy with publish.sh only."]
)
DONE: dict[str, tuple[str, str, dict[str, object], str]] = {  # session, tool, arguments, result
    "another's read": ("blog", "Read", {"file_path": "README.md"}, OTHER),
    "another's edit": ("blog", "Edit", {"file_path": "README.md", "old_string": OLD, "new_string": NEW}, "ok"),
    "another's format": ("blog", "bash", {"command": "npm run format"}, ""),
    "a refused write": ("shop", "Write", {"file_path": "README.md", "content": OTHER}, "Write access denied."),
    "no success": ("shop", "delete_file", {"path": "README.md"}, '{"success": false}'),
    "a redirect that failed": ("shop", "bash", {"command": "echo x > README.md"}, "bash: README.md: Permission denied"),
    "a rehearsed call": ("shop", "delete_file", {"path": "README.md", "dry_run": True}, "would delete README.md"),
    "a server's tool": ("shop", "crm.delete", {"path": "README.md"}, "ok"),
    "an MCP server's tool": ("shop", "mcp__wiki__write", {"path": "README.md", "content": OTHER}, "ok"),
}


def done_in(session: str, name: str, arguments: dict[str, object], result: str) -> ActionStep:
    return ActionStep("", [ToolCall(name, arguments, observation=result)], session=session)


@pytest.mark.parametrize("case", DONE)
def test_what_says_nothing_of_a_file_changes_nothing(tmp_path: Path, case: str) -> None:
    with open_memory(tmp_path) as memory:
        memory.archive([done_in("shop", "Read", {"file_path": "README.md"}, "\n".join(LINES))])
        memory.archive([done_in(*DONE[case]) for _ in range(2)])
        found = memory.recall(ASKED, 400, session="shop", min_relevance=0)
        assert [item.text + item.mark for item in found if OLD in item.text] == ["\n".join(LINES)]


def test_what_is_gone_leaves_a_mark_where_its_newer_version_may_not_be_shown(tmp_path: Path) -> None:
    with open_memory(tmp_path) as memory:
        memory.archive([read(*LINES).evolve(speaker="Ann"), act("Write", content=OTHER).evolve(speaker="Bob")])
        assert "#1 Read:\n[changed by #2]" in memory.recall(ASKED, 300, speaker="Ann", min_relevance=0).text
