"""Names of adapters, resolved."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tinymem import registry
from tinymem.embedders import HashingEmbedder, StaticEmbedder
from tinymem.errors import InputError
from tinymem.registry import (
    check_store_spec,
    embedder_from,
    embedder_names,
    is_in_memory,
    store_from,
    store_names,
    summarizer_from,
    summarizer_names,
)
from tinymem.steps.types import Step
from tinymem.stores import ChromaStore, ExactStore
from tinymem.summarizers import ExtractiveSummarizer


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A distribution of somebody else, installed: an embedder, a store, a summarizer, and one that is no adapter."""
    (tmp_path / "somebody.py").write_text(
        "from tinymem.embedders import HashingEmbedder\n"
        "from tinymem.stores import ExactStore\n"
        "def embedder(argument): return HashingEmbedder(int(argument))\n"
        "def store(argument, path): s = ExactStore(); s.argument, s.path = argument, path; return s\n"
        "class Summarizer:\n"
        "    def __init__(self, name): self.name = name\n"
        "    def summarize(self, steps, max_tokens): return ''\n"
        "def nothing(argument): return object()\n"
    )
    info = tmp_path / "somebody-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tinymem.embedders]\ntheirs = somebody:embedder\nnothing = somebody:nothing\nstatic = somebody:nothing\n"
        "[tinymem.stores]\ntheirs = somebody:store\n"
        "[tinymem.summarizers]\ntheirs = somebody:Summarizer\nnothing = somebody:nothing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "theirs"


@pytest.mark.parametrize(
    ("spec", "kind"), [("static", StaticEmbedder), ("hashing", HashingEmbedder), ("hashing:64", HashingEmbedder)]
)
def test_a_name_gives_the_embedder_that_has_it(spec: str, kind: type) -> None:
    embedder = embedder_from(spec)
    assert isinstance(embedder, kind)
    assert embedder.name == spec


def test_a_name_gives_the_store_that_has_it(tmp_path: Path) -> None:
    assert isinstance(store_from("exact", tmp_path), ExactStore)
    store = store_from("chroma", tmp_path / "chroma")
    assert isinstance(store, ChromaStore)
    assert (tmp_path / "chroma" / "chroma.sqlite3").exists()
    store.close()


def test_a_name_gives_the_summarizer_that_has_it() -> None:
    assert type(summarizer_from("extractive")) is ExtractiveSummarizer
    assert summarizer_names() == ["extractive", "openai"]


def test_a_function_of_steps_is_a_summarizer_named_after_it() -> None:
    def count(steps: list[Step]) -> str:
        return f"{len(steps)} steps"

    summarizer = summarizer_from(count)
    assert summarizer.name.endswith("count") and summarizer.summarize([], 10) == "0 steps"
    with pytest.raises(InputError, match=re.escape("ExtractiveSummarizer(...)")):
        summarizer_from(ExtractiveSummarizer)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "hint"), [("sttic", "'static'"), ("sentence_transformers:x", "sentence-transformers")]
)
def test_an_unknown_embedder_is_an_error_that_suggests_one(name: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"did you mean .*{hint}.*known: hashing, .*static"):
        embedder_from(name)


def test_an_object_that_is_no_adapter_is_an_error_that_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"of type object lacks dimensions, embed_documents, .*fingerprint, name"):
        embedder_from(object())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="lacks clear, close, count"):
        store_from(7, tmp_path)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="lacks name, summarize"):
        summarizer_from(7)  # type: ignore[arg-type]


def test_a_class_instead_of_an_object_is_an_error_that_says_so() -> None:
    with pytest.raises(InputError, match=re.escape("HashingEmbedder(...)")):
        embedder_from(HashingEmbedder)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        lambda: embedder_from("static:anything"),
        lambda: embedder_from("hashing:many"),
        lambda: embedder_from("sentence-transformers"),
        lambda: embedder_from("onnx"),
        lambda: embedder_from("minilm:anything"),
        lambda: store_from("exact:anything", Path()),
        lambda: summarizer_from("extractive:anything"),
        lambda: summarizer_from("openai"),
        lambda: store_from("chroma:anything", Path()),
    ],
)
def test_an_argument_that_an_adapter_cannot_use_is_an_error(call: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        call()


def test_an_installed_plugin_is_found_with_its_argument(plugin: str, tmp_path: Path) -> None:
    assert embedder_from(f"{plugin}:32").dimensions == 32
    store = store_from(f"{plugin}:a:b", tmp_path / "x")
    assert (store.argument, store.path) == ("a:b", tmp_path / "x")  # type: ignore[attr-defined]
    assert summarizer_from(f"{plugin}:a:b").name == "a:b"
    assert plugin in embedder_names() and plugin in store_names() and plugin in summarizer_names()


def test_a_plugin_cannot_take_the_name_of_a_shipped_adapter(plugin: str) -> None:
    assert type(embedder_from("static")) is StaticEmbedder


def test_a_shipped_adapter_is_found_without_a_look_at_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_points", None)  # a call fails
    assert embedder_from("hashing:64").name == "hashing:64"
    assert check_store_spec("exact") == "exact" and is_in_memory("exact")
    assert summarizer_from("extractive").name == "extractive"
    with pytest.raises(TypeError):
        embedder_from("theirs")
