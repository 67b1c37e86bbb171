"""An opening that fails leaves the disk as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tinymem import ConversationMemory, HierarchicalMemory, Memories, TaskStep, TinymemError
from tinymem.archive import namespaces
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.upkeep import export_memory, import_memory

CHEAP: dict[str, Any] = {"embedder": "hashing:8", "store": "exact"}


class Unwell(HashingEmbedder):
    """An embedder that cannot be asked who it is."""

    @property
    def fingerprint(self) -> str:
        raise RuntimeError("the model's file is damaged")


class Nameless(HashingEmbedder):
    @property
    def name(self) -> str:
        raise RuntimeError("the model's file is damaged")


def _refused(text: str) -> str:
    raise ValueError("nothing may be written")


WRONG: dict[str, dict[str, Any]] = {
    "embedder": {"embedder": "klingon"},
    "damaged embedder": {"embedder": Unwell()},
    "nameless embedder": {"embedder": Nameless()},
    "counter": {"counter": "klingon"},
    "store": {"store": "klingon"},
    "summarizer": {"summarizer": "klingon"},
    "budget": {"max_tokens": 0},
    "system prompt": {"system_prompt": 5},
    "redact": {"system_prompt": "x", "redact": _refused},
    "callbacks": {"callbacks": 5},
    "retention": {"retention": 5},
    "shares": {"shares": (0.5, 0.1, 0.1)},
    "strategy": {"prune_strategy": 5},
    "not there": {"create": False},
}

OPENED: dict[str, Callable[..., Any]] = {
    "HierarchicalMemory": HierarchicalMemory,
    "ConversationMemory": ConversationMemory,
    "Memories": lambda path, **options: Memories(path, **options).open("ann").__enter__(),
}


FAILS = (TinymemError, RuntimeError, ValueError)


def everything(path: Path) -> dict[str, bytes]:
    """All that is in the folder, by name."""
    return {str(one): one.read_bytes() if one.is_file() else b"" for one in path.rglob("*")}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize(("opened", "where"), [*((name, "a/b/c") for name in OPENED), ("HierarchicalMemory", ".")])
def test_nothing_is_left_where_nothing_was(opened: str, wrong: str, where: str, tmp_path: Path) -> None:
    with pytest.raises(FAILS):
        OPENED[opened](tmp_path / where, **{**CHEAP, **WRONG[wrong]})
    assert everything(tmp_path) == {}


@pytest.mark.parametrize("wrong", WRONG)
def test_another_namespace_stays_as_it_is(wrong: str, tmp_path: Path) -> None:
    with HierarchicalMemory(tmp_path, namespace="ann", **CHEAP) as memory:
        memory.add(TaskStep("Ship it."))
    before = everything(tmp_path)
    with pytest.raises(FAILS):
        HierarchicalMemory(tmp_path, namespace="bob", **{**CHEAP, **WRONG[wrong]})
    assert everything(tmp_path) == before
    assert namespaces(tmp_path) == ["ann"]


def test_an_import_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with HierarchicalMemory(tmp_path / "from", **CHEAP) as memory:
        memory.add(TaskStep("Ship it."))
    export_memory(tmp_path / "from", tmp_path / "out.jsonl")
    cut = tmp_path / "cut.jsonl"
    cut.write_text("".join((tmp_path / "out.jsonl").read_text("utf-8").splitlines(keepends=True)[:-1]), "utf-8")
    before = everything(tmp_path)
    with pytest.raises(TinymemError):
        import_memory(tmp_path / "to" / "there", cut, embedder="hashing:8")
    with pytest.raises(FAILS):
        import_memory(tmp_path / "to" / "there", tmp_path / "out.jsonl", embedder=Unwell())
    with pytest.raises(TinymemError):
        import_memory(tmp_path / "from", cut, namespace="other", embedder="hashing:8")
    assert everything(tmp_path) == before
