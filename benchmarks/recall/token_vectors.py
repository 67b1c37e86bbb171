"""Gain in recall by token vectors of a sentence-transformers model, by the bytes that are kept for each token.

    python -m benchmarks.recall.token_vectors --model FOLDER --data FILE... --out benchmarks/results/token_vectors.json

tinymem keeps the ids of a passage's tokens, two bytes each, and looks their vectors up in a static table (late
interaction: `tinymem.recall.late`). A transformer gives vectors that depend on the words around, out of the pass that
makes the passage's own vector, but they have to be kept. Here each way to keep them takes the place of the table:
weights are fitted on every other haystack, and recall is simulated on the rest (see `benchmarks.fitting.fusion`).
`--out` alone with `--write` puts the figures of that file into the README.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from benchmarks.fitting.evidence import BUDGETS, MEASURED, Asked, Candidates, DataFile, mean_recall
from benchmarks.fitting.fusion import Settings, fit, rounded
from benchmarks.harness.data import Haystack, Query, read_haystacks, sha256
from benchmarks.harness.documents import parser_of, placed, settle
from benchmarks.harness.methods import Setup
from benchmarks.harness.summary import shown_adapter
from benchmarks.recall.variants import constants
from tinymem import TinymemError
from tinymem.protocols import Ids, TokenIds, Vectors
from tinymem.recall.catalog import Catalog
from tinymem.recall.late import MAX_TOKENS

__all__ = ["FORMAT", "KEPT", "main", "max_sim", "table"]

PROGRAM = "benchmarks.recall.token_vectors"
FORMAT = "token vectors 1"
README = Path(__file__).parents[1] / "README.md"
MARKS = f"<!-- token vectors: python -m {PROGRAM} --write -->", "<!-- end of token vectors -->"
TABLE = "ids, static table"
LATE = "tinymem.recall.features.max_sim"
BATCH = 64

Tokens: TypeAlias = tuple[Ids, Vectors]  # of a text: ids, and a vector each
Keeping: TypeAlias = Callable[[Vectors, Vectors], Vectors]  # vectors (n, d) and axes (d, d), to what is read back


def _int8(vectors: Vectors, _: Vectors) -> Vectors:
    kept: Vectors = (np.round(vectors * 127) / 127).astype(np.float32)
    return kept


def _axes(count: int) -> Keeping:
    def kept(vectors: Vectors, axes: Vectors) -> Vectors:
        turned = vectors @ axes[:, :count]
        return _int8(turned / np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), 1e-6), axes)

    return kept


def _signs(vectors: Vectors, _: Vectors) -> Vectors:
    kept: Vectors = (np.sign(vectors) / np.sqrt(vectors.shape[1])).astype(np.float32)
    return kept


KEPT: dict[str, tuple[int | None, Keeping | None]] = {  # bytes a token (None: 4 a dimension), and how
    TABLE: (2, None),
    "binary": (48, _signs),
    "int8, 64 principal axes": (64, _axes(64)),
    "int8, 128 principal axes": (128, _axes(128)),
    "int8": (384, _int8),
    "float32": (1536, lambda vectors, _: vectors),
}


class Model:
    """A sentence-transformers model, asked for the vectors of its tokens."""

    def __init__(self, folder: str) -> None:
        from sentence_transformers import SentenceTransformer

        self._model = SentenceTransformer(folder, device="cpu")

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """Ids and vectors of length 1 of each text's tokens; those of the model itself, as [CLS], are left out."""
        made = []
        special = set(self._model.tokenizer.all_special_ids)
        for at in range(0, len(texts), BATCH):
            some = list(texts[at : at + BATCH])
            found: Any = self._model.encode(some, output_value=None, show_progress_bar=False)
            for one in found:
                ids = one["input_ids"].numpy()
                own = (one["attention_mask"].numpy() > 0) & ~np.isin(ids, list(special))
                vectors = one["token_embeddings"].numpy()[own]
                made.append((ids[own], vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)))
        return made


def max_sim(asked: Tokens, passages: Sequence[Tokens], weights: Vectors) -> Vectors:
    """As `tinymem.recall.late.max_sim`: the weighted mean over the question's tokens of the best cosine."""
    chosen = np.argsort(-weights, kind="stable")[:MAX_TOKENS]
    chosen = chosen[weights[chosen] > 0]
    if not len(chosen):
        return np.zeros(len(passages), np.float32)
    shares = weights[chosen] / weights[chosen].sum()
    best = [(asked[1][chosen] @ vectors.T).max(axis=1) if len(ids) else 0 * shares for ids, vectors in passages]
    return np.array([float(row @ shares) for row in best], np.float32)


class Contextual(Candidates):
    """`Candidates` whose late interaction reads token vectors that were kept in one way or another."""

    def __init__(self, setup: Setup, model: Model) -> None:
        super().__init__(setup)
        self._model = model
        self._passages: list[Tokens] = []
        self._kept: dict[str, list[Tokens]] = {}
        self._frequency: dict[int, int] = {}

    def read(self) -> None:
        """Make the token vectors of all passages, and keep them in every way."""
        self.archive.embed_pending()
        catalog = self.archive.catalog
        places = zip(*(c.tolist() for c in (catalog.step, catalog.part, catalog.start, catalog.end)), strict=True)
        steps = self.fetch(np.unique(catalog.step).tolist())
        texts = [steps[step].parts()[part].text[start:end] for step, part, start, end in places]
        self._passages = self._model.tokens(texts)
        axes = np.linalg.svd(np.concatenate([vectors for _, vectors in self._passages[:500]]), full_matrices=False)[2].T
        self._kept = {
            name: [(ids, keep(vectors, axes)) for ids, vectors in self._passages]
            for name, (_, keep) in KEPT.items()
            if keep
        }
        self._axes = axes
        self._frequency = defaultdict(int)
        for ids, _ in self._passages:
            for token in np.unique(ids).tolist():
                self._frequency[token] += 1

    def asked(self, query: Query, haystack: Haystack) -> Iterator[tuple[str, Asked]]:
        """The candidates of a query, once for each way to keep the vectors."""
        ids, vectors = self._model.tokens([query.question.text])[0]
        _, first = np.unique(ids, return_index=True)
        seen = np.array([self._frequency.get(token, 0) for token in ids[first].tolist()])
        weights = np.log((len(self._passages) + 1) / (seen + 0.5))
        for name, (_, keep) in KEPT.items():
            if keep is None:
                yield name, self.ask(query, haystack)
                continue
            wide = vectors[first] if name in ("binary", "float32") else keep(vectors[first], self._axes)
            kept = self._kept[name]

            def late(_: TokenIds, rows: Ids, __: Catalog, ___: Vectors, wide: Vectors = wide, kept: Any = kept) -> Any:
                return max_sim((ids, wide), [kept[row] for row in rows.tolist()], weights)

            with constants({LATE: late}):
                yield name, self.ask(query, haystack)


def collected(path: Path, model: Model, embedder: str) -> dict[str, DataFile]:
    """Run the queries of a file for each way to keep the vectors; its haystacks hold all units before any query."""
    found: dict[str, list[tuple[Asked, ...]]] = {name: [] for name in KEPT}
    for haystack in read_haystacks(path):
        sys.stderr.write(f"{path.name}: {haystack.id}\n")
        with tempfile.TemporaryDirectory(prefix="token-vectors-", ignore_cleanup_errors=True) as folder:
            method = Contextual(Setup(Path(folder) / "memory", embedder, "exact", haystack.is_agent_run), model)
            try:
                method.add(haystack.units)
                method.read()
                rows: dict[str, list[Asked]] = {name: [] for name in KEPT}
                for query in haystack.queries:
                    if query.type != "adversarial" and query.question.text.strip():
                        for name, asked in method.asked(query, haystack):
                            rows[name].append(asked)
            finally:
                method.close()
        for name, asked_there in rows.items():
            found[name].append(tuple(asked_there))
    return {name: DataFile(path.name, sha256(path), tuple(stacks)) for name, stacks in found.items()}


def measured(files: Sequence[Mapping[str, DataFile]]) -> dict[str, Any]:
    """For each way: bytes a token, and for each file what held-out queries find at each budget."""
    ways: dict[str, Any] = {}
    for name, (size, _) in KEPT.items():
        fusion = rounded(fit([file[name].training(MEASURED) for file in files], Settings()))
        asked = {file[name].name: file[name].held_out(MEASURED) for file in files}
        recall = {name: mean_recall(queries, [fusion] * len(queries)) for name, queries in asked.items()}
        ways[name] = {"bytes": size, "recall": recall}
    return ways


def table(record: Mapping[str, Any]) -> str:
    """A row for each way to keep the vectors."""
    ways = record["kept"]
    files = [name.partition(".")[0] for name in next(iter(ways.values()))["recall"]]
    heads = [f"{name} @{budget}" for name in files for budget in record["budgets"]]
    lines = [f"| kept of a token | bytes | {' | '.join(heads)} |", f"| --- | ---: |{' ---: |' * len(heads)}"]
    for name, way in ways.items():
        values = [f"{value:.3f}" for file in way["recall"].values() for value in file]
        lines.append(f"| {name} | {way['bytes']} | {' | '.join(values)} |")
    return "\n".join(lines)


def main(given: Sequence[str] | None = None) -> None:
    """Measure, or put the table into place."""
    parser = parser_of(PROGRAM, __doc__)
    parser.add_argument("--model", help="a folder, or a name")
    parser.add_argument("--data", type=Path, nargs="+", default=[], metavar="FILE", help="conversations")
    parser.add_argument("--out", type=Path, required=True, metavar="RESULTS.json")
    args = parser.parse_args(given)
    if bool(args.data) != bool(args.model):
        parser.error("measuring needs both --model and --data")
    try:
        if args.data:
            name = f"sentence-transformers:{args.model}"
            model = Model(args.model)
            kept = measured([collected(path, model, name) for path in args.data])
            record = {"format": FORMAT, "embedder": shown_adapter(name), "budgets": list(BUDGETS), "kept": kept}
            args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        text = table(json.loads(args.out.read_text(encoding="utf-8")))
        print(text)
        if args.write or args.check:
            settle(PROGRAM, {README: placed(README.read_text(encoding="utf-8"), text, *MARKS)}, args.write)
    except (TinymemError, OSError, ValueError) as error:
        sys.exit(f"{PROGRAM}: {error}")


if __name__ == "__main__":
    main()
