"""The default embedder: the mean of static token vectors, from the table that ships in WordLlama's wheel.

A text's vector is the mean of its tokens' rows in a table of 32,000 x 256, scaled to length 1. No neural network runs,
so there is no torch, no download, and 10,000 passages a second on two cores. The table and its tokenizer (Llama 2's
vocabulary, MIT licence) are read from the files of the installed `wordllama` package, which is never imported: its
import reconfigures the logging of the host, its `embed` gives NaN for an empty text, and it pads every batch to its
longest text. The vectors are the same as wordllama's.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from tinymem.errors import EmbedderError, InputError
from tinymem.protocols import Vectors
from tinymem.steps.checks import check_strings
from tinymem.steps.content import encodable

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["StaticEmbedder"]

TokenIds: TypeAlias = npt.NDArray[np.uint16]  # rows of the table

MODEL = "l2_supercat_256"
DIMENSIONS = 256
POOLING = "mean1"  # part of the fingerprint: raise it when pooling or tokens change
SPACE = "\u2581"  # how the vocabulary writes a space
SLICE = 16_384  # characters in one call of the tokenizer, which slows down more than linearly
BATCH = 500_000  # characters in one batch: bounds what the tokenizer holds (about 200 bytes a token)
ROWS = 8_192  # rows of the table gathered at once
REMEMBERED = 50_000  # words whose tokens are remembered, of up to LONGEST characters: text repeats its words
LONGEST = 40
# No token of the vocabulary has a space after something else, or holds a line's end: what stands between is encoded
# alike wherever it stands.
WORDS = re.compile(rf"{SPACE}*[^{SPACE}\n]+|{SPACE}+|\n")


class StaticEmbedder:
    """An embedder by the mean of static token vectors (256 dimensions): fast, offline, deterministic.

    Nothing is read before the first use; all instances then share one table. Any number of threads may use one.

    >>> embedder = StaticEmbedder()
    >>> vectors = embedder.embed_documents(["the build fails on Windows", "a recipe for bread"])
    >>> vectors.shape
    (2, 256)
    >>> int((vectors @ embedder.embed_queries(["CI is red on win32"])[0]).argmax())
    0
    """

    name = "static"
    dimensions = DIMENSIONS

    @classmethod
    def from_name(cls, argument: str) -> StaticEmbedder:
        """Make the embedder named `"static"`; InputError for `"static:anything"`, since it takes no argument."""
        if argument:
            raise InputError(f'the embedder "static" takes no argument, and {argument!r} was given')
        return cls()

    @property
    def fingerprint(self) -> str:
        """The model, dimensions, pooling and a hash of the weights and the tokenizer."""
        return _model().fingerprint

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts: `(len(texts), 256)` float32 of length 1, zero for a text that is empty or white space.

        The vector of a text does not depend on the batch, to the last bit: sums of float16 values in float64 are exact.
        A text that spells a special token, as HTML's `<s>`, is read as any other text.
        """
        model, texts = _model(), check_strings("texts", texts)
        vectors = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for row, ids in zip(vectors, _token_ids(texts), strict=True):
            if len(ids):
                row[:] = model.pool(ids)
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed texts as `embed_documents` does: the table makes no difference between the two."""
        return self.embed_documents(texts)


class _WordModel:
    """The table `(32000, 256)` float16, mapped from the installed package's file, and the tokenizer that is there."""

    def __init__(self, folder: Path) -> None:
        self._weights = folder / "weights" / f"{MODEL}.safetensors"
        self._vocabulary = folder / "tokenizers" / "l2_supercat_tokenizer_config.json"
        self.table = _map_table(self._weights)
        self._tokenizer = _tokenizer(self._vocabulary)
        # Newer tokenizers can leave out the offsets, which nobody asks for here.
        self._encode_batch = getattr(self._tokenizer, "encode_batch_fast", self._tokenizer.encode_batch)
        self._known: dict[str, bytes] = {}  # word -> its tokens

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(self._weights.read_bytes() + self._vocabulary.read_bytes())
        return f"static/{MODEL}/{DIMENSIONS}/{POOLING}/{digest.hexdigest()[:16]}"

    def encode(self, pieces: list[str]) -> list[TokenIds]:
        split = [WORDS.findall(piece) for piece in pieces]
        known = self._known
        new = {word for word in chain.from_iterable(split) if word not in known}
        if len(known) + len(new) > REMEMBERED:
            # Another dict, so that a thread that uses the old one does not miss a word.
            known, new = {}, set(chain.from_iterable(split))
        long: dict[str, bytes] = {}
        for word, encoding in zip(new, self._encode_batch(list(new), add_special_tokens=False), strict=True):
            (known if len(word) <= LONGEST else long)[word] = np.array(encoding.ids, dtype=np.uint16).tobytes()
        self._known = known
        tokens = (lambda word: known.get(word) or long[word]) if long else known.__getitem__
        return [np.frombuffer(b"".join(map(tokens, words)), dtype=np.uint16) for words in split]

    def pool(self, ids: TokenIds) -> npt.NDArray[np.float64]:
        total = np.zeros(DIMENSIONS, dtype=np.float64)
        for start in range(0, len(ids), ROWS):
            total += np.add.reduce(self.table[ids[start : start + ROWS]], axis=0, dtype=np.float64)
        length = float(np.sqrt(total @ total))
        return total / length if length else total


def _map_table(path: Path) -> npt.NDArray[np.float16]:
    """Map the one array of a safetensors file: the length of a header, the header as JSON, the numbers.

    All processes share the file's pages. As float32 the table would be 32 MB of each process's own, and be read by each
    as it starts; texts would be embedded in a sixth less time.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    (about,) = (about for name, about in header.items() if name != "__metadata__")
    start, shape = 8 + length + about["data_offsets"][0], tuple(about["shape"])
    mapped: npt.NDArray[np.float16] = np.memmap(path, np.dtype("<f2"), "r", start, shape).view(np.ndarray)
    return mapped


def _tokenizer(path: Path) -> Tokenizer:
    from tokenizers import Tokenizer, normalizers

    tokenizer = Tokenizer.from_file(str(path))
    # `_pieces` marks the spaces itself, or each slice of a long text would begin with a space that is not there.
    tokenizer.normalizer = normalizers.Sequence([])
    tokenizer.encode_special_tokens = True
    return tokenizer


_LOCK = threading.Lock()


def _model() -> _WordModel:
    """Return the one table of this process; the first caller reads it while the others wait."""
    with _LOCK:
        return _read_model()


@lru_cache(maxsize=1)
def _read_model() -> _WordModel:
    spec = importlib.util.find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise EmbedderError('the embedder "static" reads the files of the package wordllama: pip install wordllama')
    folder = Path(next(iter(spec.submodule_search_locations)))
    try:
        return _WordModel(folder)
    except OSError as error:
        raise EmbedderError(
            f"the package wordllama in {folder} lacks the files of {MODEL} ({error}): "
            "pip install --force-reinstall 'wordllama>=0.4.0.post1'"
        ) from error


def _token_ids(texts: Sequence[str]) -> list[TokenIds]:
    """Return the rows of the table for each text, without special tokens."""
    parts: list[list[TokenIds]] = [[] for _ in texts]
    for batch in _batches(_pieces(texts)):
        for (owner, _), ids in zip(batch, _model().encode([piece for _, piece in batch]), strict=True):
            parts[owner].append(ids)
    empty = np.zeros(0, dtype=np.uint16)
    return [arrays[0] if len(arrays) == 1 else np.concatenate([empty, *arrays]) for arrays in parts]


def _pieces(texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield each text's slices as (number of the text, slice), ready for the tokenizer; none of white space."""
    for owner, text in enumerate(texts):
        if not text.strip():
            continue
        marked = SPACE + encodable(text).replace(" ", SPACE)
        yield from zip(repeat(owner), _slices(marked)) if len(marked) > SLICE else [(owner, marked)]


def _slices(text: str) -> Iterator[str]:
    """Cut where no token of the vocabulary reaches across, so that the tokens are those of the whole text."""
    start = 0
    while len(text) - start > SLICE:
        end = start + SLICE
        # Before a run of spaces, or after a line's end: no token has a space after something else, or a line's end.
        space = start + len(text[start : text.rfind(SPACE, start, end) + 1].rstrip(SPACE))
        cut = max(space, text.rfind("\n", start, end) + 1)
        cut = cut if cut > start else end
        yield text[start:cut]
        start = cut
    yield text[start:]


def _batches(pieces: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Yield batches of at most `BATCH` characters."""
    batch: list[tuple[int, str]] = []
    size = 0
    for piece in pieces:
        if size + len(piece[1]) > BATCH:
            yield batch
            batch, size = [], 0
        batch.append(piece)
        size += len(piece[1])
    if batch:
        yield batch
