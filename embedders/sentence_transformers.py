"""The embedder by any sentence-transformers model, by name or from a folder: slower than the default, more exact."""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tinymem.errors import EmbedderError, InputError, MissingExtraError, safe_summary
from tinymem.protocols import Vectors
from tinymem.steps.checks import check_strings
from tinymem.steps.content import encodable

__all__ = ["SentenceTransformerEmbedder"]

_SAMPLE = 512  # numbers of each weight tensor that go into the fingerprint: training moves nearly all of them
_BACKENDS = ("torch", "onnx", "openvino")
_WEIGHT_FILES = (".onnx", ".onnx_data", ".bin", ".safetensors")


class SentenceTransformerEmbedder:
    """An embedder by a sentence-transformers model, as `all-MiniLM-L6-v2` (384 dimensions).

    The model is loaded at first use; with a name rather than a folder, sentence-transformers downloads it then, unless
    it has it already. Texts are cut at the model's longest input. Any number of threads may use one; they take turns.
    docs/embedders.md has its costs.

    >>> embedder = SentenceTransformerEmbedder("all-MiniLM-L6-v2", device="cpu")  # doctest: +SKIP
    >>> embedder.embed_queries(["which test is flaky?"]).shape  # doctest: +SKIP
    (1, 384)
    >>> e5 = SentenceTransformerEmbedder(path, query_prompt="query: ", document_prompt="passage: ")  # doctest: +SKIP

    Args:
        model_name_or_path: The name of a model, or its folder.
        device: The device, as "cpu" or "cuda:1".
        batch_size: The most texts in a batch.
        query_prompt: The prompt before each query: the name of one of the model's prompts, or the text itself, `""` for
            none; by default the model's own.
        document_prompt: The prompt before each document, given in the same way. A model whose document prompt is called
            "passage" needs `document_prompt="passage"`: the library overlooks it.
        truncate_dim: The number of first dimensions to keep, for models that were trained for it (Matryoshka).
        backend: "torch", "onnx" or "openvino"; the latter two need sentence-transformers[onnx] or [openvino].

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        InputError: An argument makes no sense.
    """

    def __init__(
        self,
        model_name_or_path: str | Path,
        *,
        device: str | None = None,
        batch_size: int = 32,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        truncate_dim: int | None = None,
        backend: str = "torch",
    ) -> None:
        if importlib.util.find_spec("sentence_transformers") is None:
            raise MissingExtraError(f"the embedder sentence-transformers:{model_name_or_path}", "sentence-transformers")
        if not str(model_name_or_path):
            raise InputError("a model is needed: its name, as in all-MiniLM-L6-v2, or its folder")
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, and {batch_size} was given")
        if truncate_dim is not None and truncate_dim < 1:
            raise InputError(f"truncate_dim must be at least 1, and {truncate_dim} was given")
        if backend not in _BACKENDS:
            raise InputError(f"the backend must be one of {', '.join(_BACKENDS)}, and {backend!r} was given")
        self._model_name, self._device, self._batch_size = str(model_name_or_path), device, batch_size
        self._prompts = {"encode_query": query_prompt, "encode_document": document_prompt}
        self._truncate_dim, self._backend = truncate_dim, backend
        self._lock = threading.RLock()
        self._loaded: Any = None
        self._fingerprint = ""

    @classmethod
    def from_name(cls, argument: str) -> SentenceTransformerEmbedder:
        """Make the embedder named `"sentence-transformers:NAME"` or `"sentence-transformers:PATH"`."""
        if not argument:
            raise InputError('a model is needed after the colon, as in "sentence-transformers:all-MiniLM-L6-v2"')
        return cls(argument)

    @property
    def name(self) -> str:
        """`"sentence-transformers:"` and the model's name or path."""
        return f"sentence-transformers:{self._model_name}"

    @property
    def fingerprint(self) -> str:
        """The model's name (of a path the last part), dimensions, and a hash of its weights, longest input and prompts.

        With another backend than torch also the backend, whose rounding differs, or quantisation; the weights are
        then those in the files of the folder, and of a model by name only the name counts.
        """
        with self._lock:
            if not self._fingerprint:
                last = Path(self._model_name).name
                self._fingerprint = f"sentence-transformers/{last}/{self.dimensions}/{self._digest()}"
            return self._fingerprint

    @property
    def dimensions(self) -> int:
        """The length of a vector, as the model has it."""
        model = self._model()
        # Version 6 renamed it, and warns at the old name.
        dimensions = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
        return int(dimensions())

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed stored texts: `(len(texts), dimensions)` float32 of length 1, zero for empty text or white space.

        Another batch changes a vector by rounding only, less than 1e-5.

        Raises:
            EmbedderError: The model fails, or cannot be loaded.
        """
        return self._embed("encode_document", texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries, with the model's prompt for them: the same shape as `embed_documents`."""
        return self._embed("encode_query", texts)

    def _digest(self) -> str:
        """Hash the settings and weights that decide the vectors, but no names of tensors: these differ by version."""
        model = self._model()
        prompts = {method: self._prompt(method) for method, given in self._prompts.items() if given is not None}
        settings = [model.max_seq_length, sorted((model.prompts or {}).items()), *sorted(prompts.items())]
        if self._backend == "torch":
            tensors = (tensor for tensor in model.state_dict().values() if tensor.is_floating_point())
            weights = sorted(map(_sampled, tensors))
        else:
            settings.append(self._backend)
            files = (file for file in Path(self._model_name).rglob("*") if file.suffix in _WEIGHT_FILES)
            weights = sorted(map(_hashed, files))
        return hashlib.sha256(repr([settings, weights]).encode()).hexdigest()[:16]

    def _prompt(self, method: str) -> str | None:
        """Return the text of a prompt that was given, or None."""
        given = self._prompts[method]
        return None if given is None else str((self._model().prompts or {}).get(given, given))

    def _embed(self, method: str, texts: Sequence[str]) -> Vectors:
        texts = check_strings("texts", texts)
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        filled = [number for number, text in enumerate(texts) if text.strip()]
        if filled:
            vectors[filled] = self._encode(method, [encodable(texts[number]) for number in filled])
        return vectors

    def _encode(self, method: str, texts: list[str]) -> Vectors:
        model = self._model()
        encode = getattr(model, method, model.encode)  # before version 5 there is only encode
        try:
            with self._lock:  # its tokenizer fails with "Already borrowed" when threads meet in it
                found = encode(
                    texts,
                    prompt=self._prompt(method),
                    batch_size=self._batch_size,
                    normalize_embeddings=True,
                    convert_to_numpy=True,
                    show_progress_bar=False,
                )
        except Exception as error:
            raise EmbedderError(f"{self.name} failed on {len(texts)} texts: {safe_summary(error)}") from error
        return np.asarray(found, dtype=np.float32)

    def _model(self) -> Any:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> Any:
        from sentence_transformers import SentenceTransformer

        # The argument `backend` is not there before version 3.2.
        more: dict[str, Any] = {} if self._backend == "torch" else {"backend": self._backend}
        if self._truncate_dim is not None:
            more["truncate_dim"] = self._truncate_dim
        try:
            with _no_progress_bar():
                return SentenceTransformer(self._model_name, device=self._device, **more)
        except Exception as error:
            raise EmbedderError(
                f"the model {self._model_name!r} cannot be loaded ({type(error).__name__}: {error}). A name must be "
                "downloaded once, online and with HF_HUB_OFFLINE unset; or give the folder that holds the model, as in "
                "'sentence-transformers:/path/to/model'"
            ) from error


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """Show no bar on standard error while weights are loaded, and put the host's setting back."""
    settings: Any = import_module("transformers.utils.logging")
    shown = settings.is_progress_bar_enabled()
    settings.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            settings.enable_progress_bar()


def _hashed(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while block := opened.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _sampled(tensor: Any) -> str:
    flat = tensor.detach().flatten()
    values = flat[:: max(1, len(flat) // _SAMPLE)].float().cpu().numpy()
    return hashlib.sha256(repr(tuple(tensor.shape)).encode() + values.tobytes()).hexdigest()
