"""Versions: edits that are replayed give the lines that the file has."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tinymem.coding.acts import SCOPE, FileNote
from tinymem.coding.lines import code_lines
from tinymem.coding.tracker import CodingTracker
from tinymem.coding.versions import Version
from tinymem.steps.actions import ActionStep, ToolCall

WORDS = [f"statement number {n} of this file" for n in range(12)]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8)


@dataclass
class FileModel:
    """A file of an agent, and the run that works on it."""

    lines: list[str]
    steps: list[ActionStep] = field(default_factory=list)
    shown: set[str] = field(default_factory=set)

    def call(self, name: str, arguments: dict[str, object], result: str = "ok") -> None:
        call = ToolCall(name, {"file_path": "/w/a.py", **arguments}, f"c{len(self.steps)}", result)
        self.steps.append(ActionStep("", [call], step_number=len(self.steps) + 1))

    def write(self, lines: list[str]) -> None:
        self.lines = lines
        self.shown.update(lines)
        self.call("Write", {"content": "\n".join(lines)})

    def read(self, first: int = 0, last: int | None = None) -> None:
        part = self.lines[first:last]
        self.shown.update(part)
        limits: dict[str, object] = {} if (first, last) == (0, None) else {"offset": first + 1, "limit": len(part)}
        self.call("Read", limits, "\n".join(f"{n}→{line}" for n, line in enumerate(part, first + 1)))

    def edit(self, first: int, last: int, new: list[str]) -> None:
        old, text = "\n".join(self.lines[first:last]), "\n".join(self.lines)
        if not old or text.count(old) != 1:
            return
        self.lines = text.replace(old, "\n".join(new)).split("\n")
        self.shown.update(new)
        self.call("Edit", {"old_string": old, "new_string": "\n".join(new)})

    def standing(self) -> set[str]:
        """Return the lines that were shown and that nothing says are gone."""
        version = self.version()
        return {line for line in self.shown for code in code_lines(line) if version.gone_since(code) is None}

    def version(self) -> Version:
        notes = map(FileNote.of, CodingTracker().notes_of(self.steps, list))
        return Version([note for note in notes if note.act.path.startswith(SCOPE)])


@settings(max_examples=60)
@given(TEXTS, st.lists(st.tuples(st.integers(0, 7), st.integers(1, 3), TEXTS, st.booleans()), max_size=8))
def test_replayed_edits_give_the_file_that_the_last_whole_read_shows(
    begin: list[str], changes: list[tuple[int, int, list[str], bool]]
) -> None:
    file = FileModel(begin)
    file.read()
    for first, count, new, looks in changes:
        file.edit(first, first + count, new)
        if looks:
            file.read(first, first + 2)
    assert file.standing() == set(file.lines) & file.shown
    file.read()
    assert file.standing() == set(file.lines)


def since(file: FileModel, line: str) -> int | None:
    note = file.version().gone_since(code_lines(line)[0])
    return None if note is None else note.step


def test_a_whole_read_that_lacks_a_line_takes_it_away_and_one_that_has_it_brings_it_back() -> None:
    file = FileModel(WORDS[:6])
    file.read()
    file.lines = WORDS[1:7]
    file.read()
    assert since(file, WORDS[0]) == 2 and since(file, WORDS[1]) is None
    file.lines = WORDS[:6]
    file.read(0, 1)
    assert since(file, WORDS[0]) is None and since(file, WORDS[1]) is None


def test_the_result_of_another_call_changes_nothing() -> None:
    file = FileModel(WORDS[:6])
    file.read()
    file.lines = ["the text of quite another file", "which came for this call"]
    file.read()
    assert since(file, WORDS[0]) is None


def test_what_was_set_back_is_not_sure() -> None:
    file = FileModel(WORDS[:6])
    file.read()
    file.edit(0, 1, [WORDS[8]])
    file.call("bash", {"command": "git checkout -- ."})
    assert since(file, WORDS[0]) is None
    file.read(0, 2)
    file.edit(1, 2, [WORDS[9]])
    assert since(file, WORDS[1]) == 5
