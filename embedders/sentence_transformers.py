"""The embedder by any sentence-transformers model, by name or from a folder: slower than the default, more exact."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from tinymem.embedders.batches import embed_filled
from tinymem.errors import EmbedderError, InputError, MissingExtraError, safe_summary
from tinymem.protocols import Vectors
from tinymem.steps.content import encodable

__all__ = ["SentenceTransformerEmbedder"]

_SAMPLE = 512  # numbers of each weight tensor that go into the fingerprint: training moves nearly all of them


class SentenceTransformerEmbedder:
    """An embedder by a sentence-transformers model, as `all-MiniLM-L6-v2` (384 dimensions).

    The model is loaded at first use; with a name rather than a folder, sentence-transformers downloads it then, unless
    it has it already. Queries and documents get the prompts that the model's own settings say. Texts are cut at the
    model's longest input. Any number of threads may use one; they take turns. docs/embedders.md has its costs.

    >>> embedder = SentenceTransformerEmbedder("all-MiniLM-L6-v2", device="cpu")  # doctest: +SKIP
    >>> embedder.embed_queries(["which test is flaky?"]).shape  # doctest: +SKIP
    (1, 384)

    Args:
        model_name_or_path: The name of a model, or its folder.
        device: The device, as "cpu" or "cuda:1".
        batch_size: The most texts in a batch.
        truncate_dim: The number of first dimensions to keep, for models that were trained for it (Matryoshka).

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
        truncate_dim: int | None = None,
    ) -> None:
        if importlib.util.find_spec("sentence_transformers") is None:
            raise MissingExtraError(f"the embedder sentence-transformers:{model_name_or_path}", "sentence-transformers")
        if not str(model_name_or_path):
            raise InputError("a model is needed: its name, as in all-MiniLM-L6-v2, or its folder")
        for name, value in {"batch_size": batch_size, "truncate_dim": truncate_dim}.items():
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, and {value} was given")
        self._model_name, self._device = str(model_name_or_path), device
        self._batch_size, self._truncate_dim = batch_size, truncate_dim
        self.name = f"sentence-transformers:{model_name_or_path}"
        self._lock = threading.Lock()

    @classmethod
    def from_name(cls, argument: str) -> SentenceTransformerEmbedder:
        """Make the embedder named `"sentence-transformers:NAME"` or `"sentence-transformers:PATH"`."""
        if not argument:
            raise InputError('a model is needed after the colon, as in "sentence-transformers:all-MiniLM-L6-v2"')
        return cls(argument)

    @functools.cached_property
    def fingerprint(self) -> str:
        """The model's name (of a path the last part), dimensions, and a hash of its weights, longest input and prompts.

        No names of tensors are in it: these differ by version.
        """
        model = self._model
        tensors = (tensor for tensor in model.state_dict().values() if tensor.is_floating_point())
        settings = [model.max_seq_length, sorted((model.prompts or {}).items())]
        digest = hashlib.sha256(repr([settings, sorted(map(_sampled, tensors))]).encode()).hexdigest()[:16]
        return f"sentence-transformers/{Path(self._model_name).name}/{self.dimensions}/{digest}"

    @property
    def dimensions(self) -> int:
        """The length of a vector, as the model has it."""
        # Version 6 renamed it, and warns at the old name.
        named = getattr(self._model, "get_embedding_dimension", None) or self._model.get_sentence_embedding_dimension
        return int(named())

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed stored texts: `(len(texts), dimensions)` float32 of length 1, zero for empty text or white space.

        Another batch changes a vector by rounding only, less than 1e-5.

        Raises:
            EmbedderError: The model fails, or cannot be loaded.
        """
        return embed_filled(texts, self.dimensions, functools.partial(self._encode, "encode_document"))

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries, with the model's prompt for them: the same shape as `embed_documents`."""
        return embed_filled(texts, self.dimensions, functools.partial(self._encode, "encode_query"))

    def _encode(self, method: str, texts: list[str]) -> Vectors:
        # Before version 5 there is only encode.
        encode: Callable[..., Vectors] = getattr(self._model, method, self._model.encode)
        try:
            with self._lock:  # its tokenizer fails with "Already borrowed" when threads meet in it
                return encode([*map(encodable, texts)], batch_size=self._batch_size, show_progress_bar=False)
        except Exception as error:
            raise EmbedderError(f"{self.name} failed on {len(texts)} texts: {safe_summary(error)}") from error

    @functools.cached_property
    def _model(self) -> Any:
        from sentence_transformers import SentenceTransformer

        try:
            with self._lock, _no_progress_bar():
                return SentenceTransformer(self._model_name, device=self._device, truncate_dim=self._truncate_dim)
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


def _sampled(tensor: Any) -> str:
    flat = tensor.detach().flatten()
    values = flat[:: max(1, len(flat) // _SAMPLE)].float().cpu().numpy()
    return hashlib.sha256(repr(tuple(tensor.shape)).encode() + values.tobytes()).hexdigest()
