"""Folders of memories without a path: who removes which."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tinymem.stores.temporary import LOCK, PREFIX, private_folder


@pytest.mark.parametrize("is_used", [False, True], ids=["made just now", "left behind"])
def test_only_a_folder_that_was_used_is_taken_for_abandoned(
    is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    other = tmp_path / f"{PREFIX}other"
    other.mkdir()
    (other / LOCK).touch()  # its process has not locked it yet, or was killed
    if is_used:
        (other / "memory").mkdir()
    _, remove = private_folder(test_only_a_folder_that_was_used_is_taken_for_abandoned)
    remove()
    assert other.exists() is not is_used
