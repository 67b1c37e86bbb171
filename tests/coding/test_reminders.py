"""Reminders: a failure that is known says what helped, an edit what was said of its file; all else says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from memories import open_memory

from tinymem import ActionStep, HierarchicalMemory, MessageStep, ToolCall
from tinymem.coding.reminders import Reminders
from tinymem.messages.tokens import counter_from

MISSING = "Exit code 1\nE   ModuleNotFoundError: No module named 'yaml'\n1 failed in 0.52s"
TYPES = "Exit code 2\nsrc/till.ts(31,7): error TS2304: Cannot find name 'Receipt'."
PUSH = "Exit code 128\nfatal: The current branch shop-7 has no upstream branch."
SPACE = "Exit code 1\nOSError: [Errno 28] No space left on device while the wheel is written"


def run(line: str, result: str = "Done.", session: str = "s1", name: str = "Bash") -> ActionStep:
    return ActionStep("", [ToolCall(name, {"command": line}, observation=result)], session=session)


def edit(path: str, new: str = "", session: str = "s1", result: str | None = "The file was edited.") -> ActionStep:
    call = ToolCall("Edit", {"file_path": path, "old_string": "x = 1", "new_string": new}, observation=result)
    return ActionStep("", [call], session=session)


def said(text: str) -> MessageStep:
    return MessageStep("user", text, session="s1")


STEPS = [
    run("pytest tests", MISSING),
    run("pip install pyyaml", "Successfully installed pyyaml-6.0"),
    run("cd /w/app && pytest tests -q", "77 passed in 2.1s"),
    run("npm run build", TYPES),  # 4
    run("cat src/till.ts", "x = 1"),
    edit("/w/app/src/till.ts", "import { Receipt } from './receipt'"),
    said("Keep the old signature, please."),
    run("npm run build 2>&1 | tail -5", "built in 3s"),  # 8
    run("git push", PUSH),
    run("git push -u origin shop-7", "branch 'shop-7' set up"),
    run("make wheel", SPACE),  # 11: nothing passed
    said("Thanks. Do not edit generated/ or db/schema.sql, they are built."),
    said("Never push on a Friday. Is docs/index.md good?"),
]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HierarchicalMemory]:
    with open_memory(tmp_path_factory.mktemp("m")) as opened:
        opened.archive(STEPS)
        yield opened


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (run("python -m pytest", "ModuleNotFoundError: No module named 'yaml'\n2 errors in 1.3s", "s2"),
         "#1 {day} pytest tests failed like this; pytest tests -q passed in #3, after pip install pyyaml in #2"),
        (run("npm run build", TYPES.replace("31,7", "4,19").replace("src/", "/other/src/"), "s2", "shell"),
         "#4 {day} npm run build failed like this; it passed in #8, after an edit of till.ts in #6: "
         "import { Receipt } from './receipt'"),
        (run("git push origin", PUSH.replace("-7", "-12"), "s2"),
         "#9 {day} git push failed like this; git push -u origin shop-7 passed in #10"),
        (run("npm run build", TYPES.replace("Receipt", "Invoice"), "s2"), None),
        (run("yarn build", TYPES, "s2"), None),
        (run("npm run build", TYPES), None),  # its own session
        (run("make wheel", SPACE, "s2"), None),
        (run("cat build.log", TYPES, "s2"), None),
        (run("pytest tests", "80 passed", "s2"), None),
        (run("npm run build", f"Command running in background with ID: b1\n{TYPES}", "s2"), None),
        (edit("/tree/generated/api.ts", session="s2", result=None),
         "#12 {day} user: Do not edit generated/ or db/schema.sql, they are built."),
        (edit("/tree/app/db/schema.sql", session="s2", result=None),
         "#12 {day} user: Do not edit generated/ or db/schema.sql, they are built."),
        (edit("/tree/src/till.ts", session="s2", result=None), "#7 {day} user: Keep the old signature, please."),
        (edit("/tree/test/schema.sql", session="s2", result=None), None),
        (edit("/tree/docs/index.md", session="s2", result=None), None),
        (edit("/tree/generated/api.ts", session="s2"), None),  # it is done
    ],
)  # fmt: skip
def test_what_helped_or_was_said_is_one_line_and_comes_once_a_session(
    memory: HierarchicalMemory, step: ActionStep, line: str | None
) -> None:
    reminders = Reminders(memory)
    found = reminders.of(step)
    day = f"{memory.get(1).timestamp:%Y-%m-%d}"
    assert (found and found.split("\n")[1:-1]) == (line and [line.replace("{day}", day)])
    assert reminders.of(step) is None
    if found:
        assert "data, not instructions" in found and counter_from(None).count(found.split("\n")[1]) <= 60
        assert reminders.of(step.evolve(session="s3")) == found


def test_a_reminder_is_cut_to_its_tokens_and_says_what_corrects_a_rule(tmp_path: Path) -> None:
    with open_memory(tmp_path) as memory:
        long = " ".join(f"--option-{n}=<value-{n}>" for n in range(40))
        memory.archive([run(f"build {long}", TYPES), edit("/w/a.py", "y" * 900), run(f"build {long}", "BUILD SUCCESS")])
        rule = memory.archive([said("Never edit schema.sql by hand.")])[0]
        line = str(Reminders(memory, "shop").of(run("build", TYPES, "s2"))).split("\n")[1]
        assert line.startswith("shop#1 ") and "shop#2" in line and "shop#3" in line and "<" not in line
        assert counter_from(None).count(line) <= 60
        memory.correct(rule.id, "schema.sql may be edited since May.")
        assert "since May" in str(Reminders(memory).of(edit("/v/schema.sql", session="s2", result=None)))


def test_what_a_compacted_session_did_before_counts(memory: HierarchicalMemory) -> None:
    assert Reminders(memory).of(run("git push", PUSH), after=len(STEPS)) is not None
