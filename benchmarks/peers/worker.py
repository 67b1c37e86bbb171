"""The process in a peer's own environment: one memory, fed and queried over standard input and output.

Started by benchmarks.peers as `python -I peers_run.py PEER VECTORS.npz PACKAGE...`, with the peer's packages and numpy
and nothing else. The first line out has the packages' versions, then every line in gets a line back:

    {"open": FOLDER}                                            {}      a new memory, its files in FOLDER
    {"add": [{"place": 7, "text": "...", "session": "s1"}]}     {}
    {"ask": "...", "most": 100}                                 {"places": [7, ...]}, the best first
    {"close": true}                                             {}

or {"error": "..."}, the last line of all. Vectors are looked up by text: a text that has none is an error. Each unit
is one record of the peer; whatever the peer does by default is left as it is, unless a comment says why not.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module as load  # by name: none of them is there where this is type-checked
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = ["MEMORIES", "PATIENCE", "Memory", "Vectors", "key_of", "main"]

PATIENCE = 900  # seconds without an answer after which the process ends itself and says where it hangs
BATCH = 128  # rows at once where the peer's own bulk loader takes so many

Row = Mapping[str, Any]  # place, text, session


def key_of(text: str) -> str:
    """Under which key a text's vector stands; peers strip white space, so it does not count."""
    return hashlib.sha256(text.strip().encode()).hexdigest()


class Vectors:
    """The embedder of all peers: a table of vectors that were made beforehand."""

    def __init__(self, path: str) -> None:
        table = load("numpy").load(path)
        self._rows = dict(zip(table["keys"].tolist(), table["vectors"], strict=True))
        self.dimensions = int(table["vectors"].shape[1])

    def of(self, text: str) -> Any:
        """The vector of a text, as a numpy array."""
        try:
            return self._rows[key_of(text)]
        except KeyError:
            raise LookupError(f"the peer wants a text embedded that it was not given: {text[:80]!r}") from None

    def lists(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of texts, as lists."""
        return [self.of(text).tolist() for text in texts]


class Memory:
    """A peer: empty when it is made."""

    def __init__(self, folder: Path, vectors: Vectors) -> None:
        self.vectors = vectors
        self.open(folder)

    def open(self, folder: Path) -> None:
        """Make it, with its files in `folder`."""
        raise NotImplementedError

    def add(self, rows: Sequence[Row]) -> None:
        """Take in the next units."""
        raise NotImplementedError

    def ask(self, text: str, most: int) -> list[int]:
        """The places of at most `most` units, the best first."""
        raise NotImplementedError

    def close(self) -> None:
        """Release everything."""


class Chroma(Memory):
    """A collection with Chroma's defaults. The model that it would download is all-MiniLM-L6-v2, too."""

    def open(self, folder: Path) -> None:
        chromadb = load("chromadb")
        settings = load("chromadb.config").Settings(anonymized_telemetry=False)
        self._client = chromadb.PersistentClient(str(folder), settings)
        self._units = self._client.create_collection("units", embedding_function=None)

    def add(self, rows: Sequence[Row]) -> None:
        most = self._client.get_max_batch_size()
        for start in range(0, len(rows), most):
            texts = [row["text"] for row in rows[start : start + most]]
            ids = [str(row["place"]) for row in rows[start : start + most]]
            self._units.add(ids, documents=texts, embeddings=self.vectors.lists(texts))

    def ask(self, text: str, most: int) -> list[int]:
        found = self._units.query(query_embeddings=self.vectors.lists([text]), n_results=most, include=[])
        return [int(place) for place in found["ids"][0]]

    def close(self) -> None:
        self._client.close()


class Mem0(Memory):
    """`add(infer=False)`, on Chroma: without an LLM. It says itself that its BM25 is off with that store."""

    def open(self, folder: Path) -> None:
        local = {"provider": "openai", "config": {"api_key": "none"}}  # made, never called
        store = {"provider": "chroma", "config": {"collection_name": "units", "path": str(folder / "store")}}
        history = str(folder / "history.db")
        folder.mkdir(parents=True)
        config = {"vector_store": store, "embedder": local, "llm": local, "history_db_path": history}
        self._memory = load("mem0").Memory.from_config(config)
        self._memory.embedding_model = self  # of its providers none takes vectors that are there already

    def embed(self, text: str, memory_action: str | None = None) -> Any:
        """Return an embedding, as mem0 asks for it."""
        return self.vectors.lists([text])[0]

    def embed_batch(self, texts: list[str], memory_action: str = "add") -> Any:
        """The same for several."""
        return self.vectors.lists(texts)

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            said = [{"role": "user", "content": row["text"]}]
            self._memory.add(said, user_id="bench", infer=False, metadata={"place": row["place"]})

    def ask(self, text: str, most: int) -> list[int]:
        # A threshold would leave the budget empty: what is asked for is everything, in its order.
        found = self._memory.search(text, top_k=most, filters={"user_id": "bench"}, threshold=0.0)
        return [int(one["metadata"]["place"]) for one in found["results"]]

    def close(self) -> None:
        self._memory.close()


class LangGraph(Memory):
    """`InMemoryStore`, one item a unit; nothing on disk, by design."""

    def open(self, folder: Path) -> None:
        index = {"dims": self.vectors.dimensions, "embed": self.vectors.lists, "fields": ["text"]}
        self._store = load("langgraph.store.memory").InMemoryStore(index=index)

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:  # one by one: a batch with the same text twice is a ValueError
            self._store.put(("bench",), str(row["place"]), {"text": row["text"]})

    def ask(self, text: str, most: int) -> list[int]:
        return [int(item.key) for item in self._store.search(("bench",), query=text, limit=most)]


class LlamaIndex(Memory):
    """`VectorStoreIndex` on its own store and its retriever; `VectorMemoryBlock` refuses that store."""

    def open(self, folder: Path) -> None:
        self._core = load("llama_index.core")
        self._node = load("llama_index.core.schema").TextNode
        unused = self._core.MockEmbedding(embed_dim=self.vectors.dimensions)  # nodes and questions bring their vectors
        self._index = self._core.VectorStoreIndex(nodes=[], embed_model=unused)

    def add(self, rows: Sequence[Row]) -> None:
        vectors = self.vectors.lists([row["text"] for row in rows])
        made = zip(rows, vectors, strict=True)
        nodes = [self._node(id_=str(row["place"]), text=row["text"], embedding=vector) for row, vector in made]
        self._index.insert_nodes(nodes)

    def ask(self, text: str, most: int) -> list[int]:
        bundle = self._core.QueryBundle(text, embedding=self.vectors.lists([text])[0])
        found = self._index.as_retriever(similarity_top_k=most).retrieve(bundle)
        return [int(one.node.node_id) for one in found]


class MemPalace(Memory):
    """A palace with one drawer a unit and one room a session, written as its miner does; `search_memories`."""

    def open(self, folder: Path) -> None:
        # Its default model is all-MiniLM-L6-v2 as a download: the same vectors stand in, all else is as shipped.
        lists = self.vectors.lists

        class Table:
            def __init__(self, **_: object) -> None: ...

            def __call__(self, input: list[str]) -> list[list[float]]:
                return lists(input)

            embed_query = __call__

            @staticmethod
            def name() -> str:
                return "default"

        embedding: Any = load("mempalace.embedding")
        embedding._build_ef_class = lambda: Table
        embedding._EF_CACHE.clear()
        self._folder = str(folder)
        self._drawers = load("mempalace.palace").get_collection(self._folder)
        self._metadata = load("mempalace.miner")._build_drawer_metadata
        self._search = load("mempalace.searcher").search_memories

    def add(self, rows: Sequence[Row]) -> None:
        for start in range(0, len(rows), BATCH):
            batch = rows[start : start + BATCH]
            ids = [str(row["place"]) for row in batch]
            metadatas = [self._described(row) for row in batch]
            self._drawers.upsert(documents=[row["text"] for row in batch], ids=ids, metadatas=metadatas)

    def _described(self, row: Row) -> Any:
        session = row["session"] or "session"
        return self._metadata("bench", session, f"{session}.txt", row["place"], "bench", row["text"], None)

    def ask(self, text: str, most: int) -> list[int]:
        found = self._search(text, self._folder, wing="bench", n_results=most)
        if "error" in found:
            raise RuntimeError(str(found["error"]))
        return [int(hit["drawer_id"]) for hit in found["results"]]


class Txtai(Memory):
    """An index with `hybrid` and `content` on: dense vectors and BM25, half and half."""

    def open(self, folder: Path) -> None:
        def transform(texts: list[str]) -> Any:  # txtai takes a plain function only
            return self.vectors.lists(texts)

        embeddings = load("txtai").Embeddings
        self._index = embeddings({"method": "external", "transform": transform, "hybrid": True, "content": True})

    def add(self, rows: Sequence[Row]) -> None:
        self._index.upsert([(row["place"], row["text"]) for row in rows])

    def ask(self, text: str, most: int) -> list[int]:
        return [int(one["id"]) for one in self._index.search(text, most)]

    def close(self) -> None:
        self._index.close()


class SqliteVec(Memory):
    """`vec0` and FTS5 in one file, by reciprocal rank fusion (k = 60), as its guide to hybrid search has it."""

    def open(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._db = load("apsw").Connection(str(folder / "units.db"))  # many Pythons' own sqlite3 loads no extension
        self._db.enable_load_extension(True)
        self._db.load_extension(load("sqlite_vec").loadable_path())
        width = self.vectors.dimensions
        self._db.execute(f"CREATE VIRTUAL TABLE vectors USING vec0(embedding float[{width}] distance_metric=cosine)")
        self._db.execute("CREATE VIRTUAL TABLE words USING fts5(text)")

    def add(self, rows: Sequence[Row]) -> None:
        with self._db:
            for row in rows:
                held = row["place"], self.vectors.of(row["text"]).tobytes()
                self._db.execute("INSERT INTO vectors (rowid, embedding) VALUES (?, ?)", held)
                self._db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (row["place"], row["text"]))

    def ask(self, text: str, most: int) -> list[int]:
        near = "SELECT rowid FROM vectors WHERE embedding MATCH ? AND k = ? ORDER BY distance"
        said = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
        terms = " OR ".join(f'"{word}"' for word in dict.fromkeys(re.findall(r"\w+", text.lower())))
        ranked = [self._db.execute(near, (self.vectors.of(text).tobytes(), most))]
        ranked += [self._db.execute(said, (terms, most))] if terms else []
        scores: dict[int, float] = {}
        for found in ranked:
            for rank, (place,) in enumerate(found, 1):
                scores[place] = scores.get(place, 0.0) + 1 / (60 + rank)
        return sorted(scores, key=lambda place: -scores[place])[:most]

    def close(self) -> None:
        self._db.close()


class LanceDb(Memory):
    """A table with its own full-text index, and its hybrid search, which fuses by reciprocal rank."""

    def open(self, folder: Path) -> None:
        self._db, self._table, self._is_indexed = load("lancedb").connect(str(folder)), None, False

    def add(self, rows: Sequence[Row]) -> None:
        records = [
            {"place": row["place"], "text": row["text"], "vector": self.vectors.of(row["text"]).tolist()}
            for row in rows
        ]
        if self._table is None:
            self._table = self._db.create_table("units", records)
        else:
            self._table.add(records)
        self._is_indexed = False

    def ask(self, text: str, most: int) -> list[int]:
        assert self._table is not None
        if not self._is_indexed:
            self._table.create_fts_index("text", replace=True)
            self._is_indexed = True
        search = self._table.search(query_type="hybrid").vector(self.vectors.of(text).tolist()).text(text)
        return [int(one["place"]) for one in search.distance_type("cosine").limit(most).to_list()]


MEMORIES: dict[str, type[Memory]] = {
    "chromadb": Chroma,
    "mem0": Mem0,
    "langgraph": LangGraph,
    "llamaindex": LlamaIndex,
    "mempalace": MemPalace,
    "sqlite-vec": SqliteVec,
    "lancedb": LanceDb,
    "txtai": Txtai,
}


class Session:
    """Answers requests, with one memory at a time."""

    def __init__(self, peer: str, vectors: Vectors) -> None:
        self._kind, self._vectors = MEMORIES[peer], vectors
        self._memory: Memory | None = None

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one line of input."""
        if folder := request.get("open"):
            self._memory = self._kind(Path(folder), self._vectors)
            return {}
        assert self._memory is not None, "nothing is open"
        if "ask" in request:
            return {"places": self._memory.ask(request["ask"], request["most"])}
        if "add" in request:
            self._memory.add(request["add"])
        else:
            self._memory.close()
        return {}


def main() -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a peer prints must not stand between the answers

    def say(record: Mapping[str, Any]) -> None:
        answers.write(json.dumps(record) + "\n")
        answers.flush()

    try:
        peer, table, *packages = sys.argv[1:]
        session = Session(peer, Vectors(table))
        say({package: version(package) for package in packages})
        for line in sys.stdin:
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            say(session.answer(json.loads(line)))
            faulthandler.cancel_dump_traceback_later()
    except Exception as error:
        traceback.print_exc()
        say({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
