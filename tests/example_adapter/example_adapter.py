"""Adapters for tinymem (embedder, store, summarizer) as somebody else would publish them; see docs/adapters.md."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import numpy as np

from tinymem import Step
from tinymem.protocols import Ids, Vectors


class TrigramEmbedder:
    """Counts of three letters in a row, each hashed to one dimension: survives typing errors, knows no meaning."""

    def __init__(self, dimensions: int = 512) -> None:
        self.name, self.dimensions = f"example:{dimensions}", dimensions
        self.fingerprint = f"example/trigrams/{dimensions}/1"  # raise the 1 when the vectors change

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            padded = f" {text.strip().lower()} ".encode("utf-8", "replace")
            for at in range(len(padded) - 2):
                row[crc32(padded[at : at + 3]) % self.dimensions] += 1
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        return vectors

    embed_queries = embed_documents


class FileStore:
    """Exact search over a dictionary, kept in a file: for a few thousand vectors."""

    name = "example"

    def __init__(self, path: Path) -> None:
        self._file, self._held = path / "vectors.npz", dict[int, Vectors]()
        if self._file.exists():
            with np.load(self._file) as saved:
                self._held = dict(zip(saved["ids"].tolist(), saved["vectors"], strict=True))

    def upsert(self, ids: Sequence[int], vectors: Vectors) -> None:
        self._held.update(zip(map(int, ids), vectors, strict=True))
        self._save()

    def query(self, vector: Vectors, k: int) -> tuple[Ids, Vectors]:
        ids = np.array(sorted(self._held), dtype=np.int64)
        cosines = np.array([self._held[key] @ vector for key in ids.tolist()], dtype=np.float32)
        best = np.argsort(-cosines, kind="stable")[:k]  # stable: ties in the order of their ids
        return ids[best], cosines[best]

    def delete(self, ids: Sequence[int]) -> None:
        for key in ids:
            self._held.pop(int(key), None)
        self._save()

    def count(self) -> int:
        return len(self._held)

    def clear(self) -> None:
        self._held.clear()
        self._save()

    def close(self) -> None:
        """Nothing is open."""

    def _save(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        new = self._file.with_suffix(".new.npz")
        np.savez(new, ids=np.array(list(self._held), dtype=np.int64), vectors=np.array(list(self._held.values())))
        os.replace(new, self._file)


class HeadlineSummarizer:
    """The first line of every step."""

    name = "example"

    def summarize(self, steps: Sequence[Step], max_tokens: int) -> str:
        lines = [line for step in steps for line in step.text.splitlines()[:1]]
        return "\n".join(lines)[: 4 * max_tokens]


def embedder(argument: str) -> TrigramEmbedder:
    return TrigramEmbedder(int(argument or 512))


def store(argument: str, path: Path) -> FileStore:
    return FileStore(path)


def summarizer(argument: str) -> HeadlineSummarizer:
    return HeadlineSummarizer()
