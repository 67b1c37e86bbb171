"""Exports that are damaged, or made to do harm: what they cost is bounded."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from stat import S_IFLNK
from typing import Any

import pytest
from chat_exports import CHATGPT, CLAUDE, DAYS, GEMINI, OPENCODE, WHEN, file_of
from hypothesis import given, settings
from hypothesis import strategies as st

from tinymem.errors import InputError
from tinymem.runs import read_runs
from tinymem.runs.exports import folders

HOSTILE: list[Any] = [None, 5, -1e300, 10**400, True, "", "x" * 3_000, "\ud800", [], [[]], {}, [None], {"id": []}]


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inner for place in places_in(one, (*path, key)))]


@st.composite
def damaged(draw: st.DrawFn, export: Any) -> Any:
    """An export with a few values of other types, or keys that are gone."""
    value = json.loads(json.dumps(export))
    for _ in range(draw(st.integers(1, 3))):
        *path, key = draw(st.sampled_from(places_in(value)[1:] or [("x",)]))
        holder = value
        for step in path:
            holder = holder[step]
        if draw(st.booleans()) and isinstance(holder, dict):
            holder.pop(key, None)
        elif isinstance(holder, (dict, list)) and (isinstance(holder, dict) or isinstance(key, int)):
            holder[key] = deepcopy(draw(st.sampled_from(HOSTILE)))
    return value


EDITED = {"type": "message", "subtype": "message_changed", "ts": f"{WHEN}.1", "message": DAYS["2026-01-02.json"][0]}
EXPORTS: dict[str, Any] = {
    "chatgpt": CHATGPT, "claude": CLAUDE, "gemini": GEMINI, "opencode": OPENCODE,
    "slack": [*DAYS["2026-01-01.json"], EDITED],
}  # fmt: skip


@pytest.mark.parametrize("kind", EXPORTS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_damaged_conversation_costs_itself_alone(
    kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    value = data.draw(damaged(EXPORTS[kind]))
    folder = tmp_path_factory.mktemp("damaged")
    if kind in ("chatgpt", "claude"):
        runs = [*read_runs(file_of(folder, [{**CLAUDE, "uuid": "sound"}, value]))]
        assert runs[0].name == "claude.ai/sound" and len(runs[0].steps) == 3
        return
    with suppress(InputError):
        list(read_runs(file_of(folder, value)))


def bomb(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b"[" + b" " * (20 << 20) + b"]")
    return folder / "bomb.zip"


def lying(folder: Path) -> Path:
    """The same, which says that it is short."""
    data = bomb(folder).read_bytes()
    (path := folder / "bomb.zip").write_bytes(data.replace(((20 << 20) + 2).to_bytes(4, "little"), bytes([9, 0, 0, 0])))
    return path


def slack(folder: Path, day: bytes = b"[" + b"[]," * 1_000 + b"[]]") -> Path:
    for name in ("users.json", *(f"general/2026-01-0{at}.json" for at in range(1, 7))):
        (file := folder / "slack" / name).parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"[]" if name == "users.json" else day)
    return folder / "slack"


def zipped(folder: Path) -> Path:
    with zipfile.ZipFile(folder.with_suffix(".zip"), "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*.json")):
            archive.write(file, file.relative_to(folder))
    return folder.with_suffix(".zip")


@pytest.mark.parametrize(("most", "is_read"), [(6 * 3_004 + 2, True), (6 * 3_004 + 1, False)])
def test_all_files_of_an_archive_together_are_bounded(
    most: int, is_read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "LARGEST", most)
    path = zipped(slack(tmp_path))
    if is_read:
        (run,) = read_runs(path, left_out=(left_out := Counter[str]()))
        assert run.steps == []
        assert left_out == {"entry without a message": 6 * 1_001}
    else:
        with pytest.raises(InputError, match=f"more than {most:,} bytes"):
            list(read_runs(path))


def test_links_in_an_export_are_not_followed(tmp_path: Path) -> None:
    secret = {"type": "message", "ts": f"{WHEN}.1", "text": "secret"}
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "2026-01-01.json").write_text(json.dumps([secret]), encoding="utf-8")
    folder = slack(tmp_path, b"[]")
    archive = zipped(folder)
    (folder / "general" / "2026-01-09.json").symlink_to(tmp_path / "out" / "2026-01-01.json")
    (folder / "random").symlink_to(tmp_path / "out")
    with zipfile.ZipFile(archive, "a") as opened:
        link = zipfile.ZipInfo("general/2026-01-08.json")
        link.external_attr = (S_IFLNK | 0o777) << 16
        opened.writestr(link, "../../out/2026-01-01.json")
        opened.writestr("../outside.json", "[]")
    left = {folder: {"link that was not followed": 2}, archive: {f"file that is damaged ({link.filename})": 1}}
    for path, skipped in left.items():
        (run,) = read_runs(path, left_out=(left_out := Counter[str]()))
        assert run.steps == [] and skipped.items() <= left_out.items()


@pytest.mark.parametrize(
    ("write", "said"),
    [(bomb, "more than"), (lying, "cannot be read|valid JSON")],
)
def test_what_would_never_end_or_fill_the_memory_is_refused(
    write: Callable[[Path], Path], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "LARGEST", 16 << 20)
    with pytest.raises(InputError, match=said):
        list(read_runs(write(tmp_path)))


def test_a_file_that_is_damaged_in_an_archive_is_named(tmp_path: Path) -> None:
    said = {"type": "message", "ts": f"{WHEN}.1", "text": "secret"}
    archive = zipped(slack(tmp_path, b"[]"))
    with zipfile.ZipFile(archive, "a", zipfile.ZIP_STORED) as opened:
        opened.writestr("general/2026-01-09.json", json.dumps([said]))
    archive.write_bytes(archive.read_bytes().replace(b"secret", b"public"))
    (run,) = read_runs(archive, left_out=(left_out := Counter[str]()))
    assert run.steps == [] and left_out == {"file that is damaged (general/2026-01-09.json)": 1}
