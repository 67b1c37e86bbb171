"""Export and import: the same memory again, all or nothing, in little memory, whatever stands in the file."""

from __future__ import annotations

import copy
import gzip
import io
import json
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memories import LATER, printed, said, sqlite
from strategies import THOROUGH, json_values

import tinymem.upkeep.importing
from tinymem import (
    ActionStep,
    FinalAnswerStep,
    HierarchicalMemory,
    Step,
    TaskStep,
    TinymemError,
    ToolCall,
    prune_old_observations,
)
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.errors import (
    BudgetError,
    EmbedderError,
    EmbedderMismatchError,
    FormatError,
    InputError,
    StorageError,
)
from tinymem.messages import problems
from tinymem.protocols import Vectors
from tinymem.upkeep import export_memory, import_memory

open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")
take_in = partial(import_memory, embedder="hashing:64")
EPISODES = 9


def run(day: int) -> list[Step]:
    """A task with its answer."""
    seen = "\n".join(f"gauge {n} of pump {day} shows {n * 7 + day} bar" for n in range(40))
    more: dict[str, Any] = {"session": f"day-{day}", "metadata": {"n": [day, None, 0.1, "\ud800\x00é"]}}
    return [
        TaskStep(f"Read pump {day}.", **more),
        ActionStep("Look.", [ToolCall("look", {"at": day}, f"c{day}", seen), ToolCall("x", "{", f"d{day}")], **more),
        said(f"“Thanks”, {day} \U0001f600.", speaker="Ann", session=f"day-{day}"),
        FinalAnswerStep(f"It is {day}.", **more),
    ]


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A memory with all that a memory can have."""
    with open_memory(tmp_path / "memory", max_tokens=3_000) as memory:
        for day in range(EPISODES):
            memory.add_steps(run(day))
        memory.archive([said("The ladder is behind the shed.", id="ladder", pinned=True)])
        memory.mark("ladder", False)
        memory.mark(3)
        memory.short_term.prune(prune_old_observations(keep_last_n=0, max_length=100))
        memory.scratchpad.store("sizes", (1, [2.5, "\ud800"], {3}))
        memory.scratchpad.store("size", (1, ["\ud800"]))
        memory.scratchpad.observe("It rains.")
        memory.medium_term.settle()
        assert memory.forget([memory.add(said("The last one.")).id]) == 1
    return tmp_path / "memory"


def exported(folder: Path, namespace: str = "default", **options: Any) -> str:
    file = io.StringIO()
    export_memory(folder, file, namespace=namespace, **options)
    return file.getvalue()


def written(folder: Path, text: str) -> Path:
    path = folder / "export.jsonl"
    path.write_text(text, encoding="ascii")
    return path


def lines_of(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def text_of(lines: Sequence[Any]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


# there and back


def test_an_import_exported_again_gives_the_same_bytes(tmp_path: Path, memory: Path) -> None:
    text = exported(memory)
    with open_memory(memory) as opened:
        passages = opened.stats().passages
    came = take_in(memory, written(tmp_path, text), namespace="copy")
    assert came.steps == len([line for line in lines_of(text) if "step" in line]) == 4 * EPISODES + 1
    assert (came.episodes, came.scratchpad) == (text.count('{"episode"'), True) and came.episodes >= EPISODES - 1
    assert came.embedded == passages
    assert exported(memory, "copy") == text
    take_in(tmp_path / "another", written(tmp_path, text))
    assert exported(tmp_path / "another") == text


def test_what_came_in_is_the_memory_that_went_out(tmp_path: Path, memory: Path) -> None:
    take_in(tmp_path / "copy", written(tmp_path, exported(memory)))
    with open_memory(memory, max_tokens=3_000) as one, open_memory(tmp_path / "copy", max_tokens=3_000) as other:
        assert other.short_term.steps == one.short_term.steps
        assert other.short_term.open_calls == one.short_term.open_calls
        assert other.long_term.journal.rows() == one.long_term.journal.rows()
        assert other.scratchpad.dump() == one.scratchpad.dump() and other.scratchpad.recall("size") == [1, ["\ud800"]]
        assert list(other.medium_term) == list(one.medium_term)
        assert {**vars(other.stats()), "bytes_on_disk": 0} == {**vars(one.stats()), "bytes_on_disk": 0}
        for question in ("gauge 7 of pump 3", "Where is the ladder?"):
            assert other.recall(question, 20_000, now=LATER).items == one.recall(question, 20_000, now=LATER).items
        assert other.long_term.key != one.long_term.key, "the key of the fences stays where it is"
        assert one.long_term.key.hex() not in exported(memory)
        assert other.add(said("Next.")).step_number == one.add(said("Next.")).step_number == 4 * EPISODES + 3


def test_a_history_that_was_fitted_before_is_known_in_the_copy(tmp_path: Path) -> None:
    history = [{"role": "user", "content": text} for text in ("a", "zyxqvortex", "c", "d")]
    with open_memory(tmp_path / "one") as memory:
        memory.fit(history, session="s")
        memory.forget([next(memory.history(after=1)).id])
    text = exported(tmp_path / "one")
    take_in(tmp_path / "copy", written(tmp_path, text))
    assert exported(tmp_path / "copy") == text
    with open_memory(tmp_path / "copy") as memory:
        for part in (history, history[1:], history[2:]):
            memory.fit(part, session="s")
        assert [step.text for step in memory.history()] == ["a", "c", "d"]


def test_a_memory_writes_itself_while_it_is_open(tmp_path: Path) -> None:
    with open_memory(tmp_path / "memory") as memory:
        memory.add(said("Hello."))
        memory.scratchpad.variables["late"] = 5  # without an update, which would keep it
        assert memory.export(tmp_path / "a.jsonl").steps == 1
        stream = io.StringIO()
        memory.export(stream)
        assert (tmp_path / "a.jsonl").read_bytes() == stream.getvalue().encode()
        assert lines_of(stream.getvalue())[2]["settings"]["scratchpad"]["variables"] == {"late": 5}
    header = {"tinymem_export": 2, "embedder": "hashing:64", "next_number": 2, "steps": 1}
    assert lines_of(stream.getvalue())[0] == header


def test_an_export_may_be_compressed(tmp_path: Path, memory: Path) -> None:
    path = tmp_path / "export.jsonl.gz"
    path.write_bytes(gzip.compress(exported(memory).encode()))
    assert take_in(memory, path, namespace="copy").steps == 4 * EPISODES + 1


def test_what_is_added_meanwhile_is_not_in_the_export(tmp_path: Path) -> None:
    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            if '"step"' in text:
                held.add(said("Meanwhile."))
            return super().write(text)

    with open_memory(tmp_path / "memory") as held:
        held.add_steps([said("a"), said("b")])
        stream = Slow()
        assert held.export(stream).steps == 2
        assert held.stats().steps == 4
    assert "Meanwhile" not in stream.getvalue()
    assert take_in(tmp_path / "copy", written(tmp_path, stream.getvalue())).steps == 2


# into a namespace that is in use


def test_a_namespace_that_is_in_use_is_refused(tmp_path: Path, memory: Path) -> None:
    before = exported(memory)
    with pytest.raises(InputError, match=r"default/journal\.db is in use \(holds 37 steps.*choose a new name"):
        take_in(memory, written(tmp_path, before))
    assert exported(memory) == before
    with open_memory(tmp_path / "noted") as noted:
        noted.scratchpad.observe("Mine.")
    with pytest.raises(InputError, match="is in use"):
        take_in(tmp_path / "noted", written(tmp_path, before))
    with pytest.raises(EmbedderMismatchError):
        import_memory(memory, written(tmp_path, before), embedder="hashing:32")


# all or nothing


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The lines of an export of a small memory: header, four steps, an episode, scratchpad, end."""
    folder = tmp_path_factory.mktemp("good")
    with open_memory(folder, max_tokens=300) as memory:
        memory.archive([*run(1)[1:2], *run(1)[3:]])
        memory.add_steps([TaskStep("Read on.", id="task"), said("Yes.", id="yes", pinned=True)])
        memory.short_term.prune(lambda steps: [steps[0].evolve(task="Short."), *steps[1:]])
        memory.scratchpad.store("size", (1, 2))
        list(memory.medium_term)
    lines = lines_of(exported(folder))
    assert [next(iter(line)) for line in lines] == ["tinymem_export", *["step"] * 4, "episode", "settings", "end"]
    return lines


def changed(lines: Sequence[Any], at: int, change: Callable[[Any], Any]) -> list[Any]:
    copied = copy.deepcopy([*lines])
    found = change(copied[at])
    if found is not None:
        copied[at] = found
    return copied


WRONG: dict[str, tuple[int, Callable[[Any], Any], str]] = {
    "no header": (0, lambda h: {"role": "user"}, "line 1: this is not the export of a memory"),
    "no number of steps": (0, lambda h: h.pop("steps") and None, "line 1: this is not the export"),
    "no kind": (2, lambda s: {"stop": 1}, "line 3: this is no line of an export"),
    "type": (2, lambda s: s["step"].update(type="nonsense"), "line 3: type 'nonsense' is not one of"),
    "step field": (2, lambda s: s["step"].update(colour="red"), "line 3: .*colour"),
    "position": (2, lambda s: s.update(position=2**63), "line 3: a value that cannot be stored"),
    "no number": (2, lambda s: s["step"].pop("step_number") and None, "line 3: the step has no number"),
    "id": (2, lambda s: s["step"].update(id="\ud800"), "line 3: a value that cannot be stored"),
    "id again": (4, lambda s: s["step"].update(id="task"), "line 5: a step with this id"),
    "overlay": (4, lambda s: s["step"].update(overlay=[{"set": {"content": 5}}]), "line 5: content must be"),
    "view of another": (3, lambda s: s["view"].update(id="other"), "line 4: a view must be of a step in the window"),
    "backwards": (5, lambda e: e["episode"].update(last=0), "line 6: this is no line of an export"),
    "scratchpad": (6, lambda s: s["settings"].update(scratchpad={}), "line 7: format None is not one"),
    "calls": (6, lambda s: s["settings"].update(open_calls={"a": "b"}), "line 7: .* not a list of open calls"),
    "a step less": (7, lambda e: e["end"].update(steps=5), "line 8: the file is cut off"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_named_with_its_line_and_nothing_is_left(tmp_path: Path, good: list[Any], what: str) -> None:
    at, change, said = WRONG[what]
    path = written(tmp_path, text_of(changed(good, at, change)))
    with pytest.raises(TinymemError, match=rf"export\.jsonl, {said}"):
        take_in(tmp_path / "memory", path, namespace="new")
    assert not (tmp_path / "memory" / "new").exists()
    take_in(tmp_path / "memory", written(tmp_path, text_of(good)), namespace="new")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", "line 1: the file is cut off"),
        (b"\xff", "line 1: 'utf-8' codec can't decode"),
        (b"[" * 200_000, "line 1: maximum recursion"),
        (b'{"tinymem_export":' + b"9" * 5_000 + b"}", "line 1"),
        (b"\x1f\x8bnonsense", "gzip data is damaged"),
    ],
)
def test_a_file_that_is_no_export_makes_nothing(tmp_path: Path, text: bytes, error: str) -> None:
    (tmp_path / "export.jsonl").write_bytes(text)
    with pytest.raises(InputError, match=error):
        take_in(tmp_path / "memory", tmp_path / "export.jsonl")
    with pytest.raises(InputError, match="cannot be read"):
        take_in(tmp_path / "memory", tmp_path / "nowhere.jsonl")
    assert not (tmp_path / "memory").exists()


def test_a_newer_format_is_refused_by_its_number(tmp_path: Path, good: list[Any]) -> None:
    newer = changed(good, 0, lambda header: header.update(tinymem_export=3, more="to come"))
    with pytest.raises(FormatError, match="line 1: the export has format 3, this version reads 2: upgrade tinymem"):
        take_in(tmp_path / "memory", written(tmp_path, text_of(newer)))
    newer = changed(good, 3, lambda line: line["step"].update(format=2))
    with pytest.raises(FormatError, match="line 4: format 2 is not one that this version reads"):
        take_in(tmp_path / "memory", written(tmp_path, text_of(newer)))


def test_a_line_that_is_too_long_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tinymem.upkeep.importing, "LONGEST", 1_000)
    path = written(tmp_path, '{"tinymem_export":1,' + " " * 5_000_000 + "}")
    tracemalloc.start()
    with pytest.raises(InputError, match="line 1: the line is longer than 1000 bytes"):
        take_in(tmp_path / "memory", path)
    assert tracemalloc.get_traced_memory()[1] < 3_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("kept", [1, 4, 7])
def test_a_file_that_was_cut_off_brings_nothing(tmp_path: Path, good: list[Any], kept: int) -> None:
    with pytest.raises(InputError, match=rf"line {kept}: the file is cut off"):
        take_in(tmp_path / "memory", written(tmp_path, text_of(good[:kept])))
    whole = text_of(good[: kept + 1])
    with pytest.raises(InputError, match=f"line {kept + 1}"):
        take_in(tmp_path / "memory", written(tmp_path, whole[:-5]))


@THOROUGH
@given(st.data())
def test_whatever_stands_in_a_file_is_refused_or_makes_a_memory_that_works(
    tmp_path_factory: pytest.TempPathFactory, good: list[Any], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("memories")
    lines = copy.deepcopy(good)
    for _ in range(data.draw(st.integers(1, 2))):
        meddle(data, lines)
    path = written(folder, text_of(lines))
    try:
        take_in(folder / "memory", path)
    except TinymemError:
        assert not (folder / "memory" / "default").exists()
        return
    with open_memory(folder / "memory", create=False) as memory:
        memory.recall("pump", 300)
        list(memory.medium_term)
        with suppress(BudgetError):
            assert problems(memory.context("pump", max_tokens=500).messages) == []
        memory.add(said("Next."))
        memory.forget([row.id for row in memory.long_term.journal.rows()][:2])
    take_in(folder / "memory", written(folder, exported(folder / "memory")), namespace="again")


def meddle(data: st.DataObject, lines: list[Any]) -> None:
    """Change, remove or double something somewhere."""
    at = data.draw(st.integers(0, len(lines) - 1))
    node: Any = {"line": lines[at]}
    key: Any = "line"
    while isinstance(node[key], (dict, list)) and node[key] and data.draw(st.integers(0, 4)):
        node = node[key]
        key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
    how = data.draw(st.sampled_from(["value", "value", "value", "other", "remove", "add", "twice"]))
    if how == "remove":
        del node[key]
    elif how == "add" and isinstance(node[key], dict):
        name = data.draw(st.sampled_from(["overlay", "tool_calls", "pinned", "metadata", "covers", "view", "content"]))
        node[key][name] = data.draw(json_values())
    elif how == "other":
        node[key] = copy.deepcopy(data.draw(st.sampled_from(lines)))
    else:
        node[key] = data.draw(st.one_of(json_values(), st.integers(-2, 9)))
    if key == "line":
        lines[at : at + 1] = [] if how == "remove" else [node[key]]
    if how == "twice":
        lines.insert(at, lines[at])


# interrupted


class Failing(HashingEmbedder):
    """Fails at every text."""

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        raise RuntimeError("no more tokens")


def test_when_the_embedder_fails_the_steps_are_in_and_wait(tmp_path: Path, good: list[Any]) -> None:
    path = written(tmp_path, text_of(good))
    with pytest.raises(EmbedderError, match="RuntimeError"):
        import_memory(tmp_path / "memory", path, embedder=Failing(64))
    with open_memory(tmp_path / "memory") as memory:
        assert memory.stats().waiting_steps == 4
        assert "It is 1." in memory.recall("What is it?", 400, now=LATER).text


# in little memory


HELD = """
import sys, tracemalloc
from pathlib import Path
from tinymem.embedders import HashingEmbedder
from tinymem.upkeep import export_memory, import_memory

folder = Path(sys.argv[1])
export, embedder = folder / "export.jsonl", HashingEmbedder(64)
for copy in ("warm", "copy"):
    export_memory(folder / "memory", export)
    print(export.stat().st_size, tracemalloc.get_traced_memory()[1])
    tracemalloc.reset_peak()
    import_memory(folder / copy, export, embedder=embedder)
    print(tracemalloc.get_traced_memory()[1])
    tracemalloc.start()
"""


@pytest.mark.slow
def test_little_of_a_large_memory_is_held_at_once(tmp_path: Path) -> None:
    with open_memory(tmp_path / "memory") as memory:
        memory.archive([said(f"{number}", metadata={"large": "abc" * 7_000}) for number in range(600)])
    *_, size, at_export, at_import = map(int, printed(HELD, tmp_path).split())
    assert size > 12_000_000 and max(at_export, at_import) < size, (size, at_export, at_import)


# files


def test_a_file_that_cannot_be_written_is_a_storage_error(tmp_path: Path, memory: Path) -> None:
    for bad in (tmp_path, tmp_path / "no" / "folder", f"{tmp_path}/nul\x00", "/dev/null"):
        with pytest.raises(StorageError, match="cannot be written"):
            export_memory(memory, bad)

    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):  # whose stream it is knows what that means
        export_memory(memory, Broken())


def test_a_damaged_step_is_a_format_error_and_an_earlier_export_stays(tmp_path: Path, memory: Path) -> None:
    file = tmp_path / "export.jsonl"
    export_memory(memory, file)
    before = file.read_bytes()
    with open_memory(memory) as opened:
        sqlite(opened.long_term.journal).read("UPDATE steps SET record = '{\"' WHERE number = 3")
        with pytest.raises(FormatError, match=r"journal\.db is damaged"):
            export_memory(memory, file)
    assert file.read_bytes() == before and {*tmp_path.iterdir()} == {memory, file}
