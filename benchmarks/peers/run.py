"""Other memories on the same data, with the same rendering, budgets and scoring as benchmarks.recall.

    python -m benchmarks.peers --data FILE... --budgets 512,1024,2048 --model FOLDER --envs FOLDER [--peers NAME,NAME]

Each peer gets an environment of its own under --envs, with pinned versions from the package index, and runs as a
process (benchmarks/peers/worker.py) that takes in units and gives back places, the best first. The units there are
rendered and filled into the budget as those of the baselines are. Without --envs, peers run in this interpreter, with
what it has.

All peers get the same vectors, made here beforehand by --model (the folder of a sentence-transformers model, such as
all-MiniLM-L6-v2, or the name of an embedder) and looked up by text, so no time of theirs has embedding in it. Results
go to OUT/SET.PEER.jsonl. A peer that cannot be installed or breaks off gets a summary that says why.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.baselines import WholeUnits, spoken
from benchmarks.harness.data import Method, Question, Unit, read_haystacks, set_name, sha256
from benchmarks.harness.documents import command_line
from benchmarks.harness.methods import PEERS, Setup, loaded
from benchmarks.harness.summary import circumstances, shown_adapter, write_summary
from benchmarks.peers.worker import key_of
from benchmarks.recall.run import Run, budgets, measure_files, progress
from tinymem import TinymemError
from tinymem.protocols import Vectors

__all__ = ["PeerError", "PeerRun", "Worker", "environment", "main", "measure_peer", "vector_table"]

HERE = Path(__file__).parent
QUIET = {"MEM0_TELEMETRY": "False", "ANONYMIZED_TELEMETRY": "False", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
BATCH = 256  # texts that are embedded at once


class PeerError(Exception):
    """A peer that cannot be measured; the message says why, in a line that names no folder of this machine."""

    def __init__(self, reason: str) -> None:
        line = " ".join(reason.split()) or "no reason was given"
        super().__init__(re.sub(r"(?<![\w:/])(?:[A-Za-z]:)?[/\\](?:[^\s/\\'\"]+[/\\])+", "", line)[:240])


class Worker(AbstractContextManager["Worker"]):
    """A peer's process."""

    def __init__(self, python: Path, peer: str, requirements: Sequence[str], table: Path, home: Path) -> None:
        packages = [re.split("[=<>]", requirement)[0] for requirement in requirements]
        command = [str(python), "-I", str(HERE / "worker.py"), peer, str(table), *packages]
        self._home = home
        self._memories = 0
        self._heard = (home / "stderr.txt").open("w+", encoding="utf-8", errors="replace")
        surroundings = {**os.environ, **QUIET, "HOME": str(home), "MEM0_DIR": str(home / "mem0")}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._heard, cwd=home, env=surroundings,
            encoding="utf-8",
        )  # fmt: skip
        self._failure: PeerError | None = None
        try:
            self.versions: dict[str, str] = self._answer()
        except PeerError:
            self.__exit__()
            raise

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request; PeerError if there is none, the first one ever after."""
        assert self._process.stdin is not None
        if self._failure is None:
            with suppress(OSError):  # it has ended: the answer says why
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        if self._failure is None:
            line = self._process.stdout.readline()
            answer: dict[str, Any] = json.loads(line) if line else {"error": self._last_words()}
            if "error" not in answer:
                return answer
            self._failure = PeerError(answer["error"])
        raise self._failure

    def _last_words(self) -> str:
        status = self._process.wait()
        self._heard.seek(0)
        return f"ended with status {status}: {last_line(self._heard)}"

    def folder(self) -> Path:
        """Return a folder for the files of the next memory."""
        self._memories += 1
        return self._home / f"memory{self._memories}"

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._heard.close()


class Remote(WholeUnits):
    """A memory in a peer's process, filled and rendered as the baselines are."""

    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self._worker = worker
        worker.ask({"open": str(worker.folder())})

    def add(self, units: Sequence[Unit]) -> None:
        """Take in the next units."""
        numbered = enumerate(units, len(self._units))
        rows = [{"place": place, "text": spoken(unit), "session": unit.session} for place, unit in numbered]
        self._worker.ask({"add": rows})
        super().add(units)

    def rank(self, question: Question, most: int) -> Iterable[int]:
        """Return the peer's ranking, each unit once."""
        wanted = min(most, len(self._units))
        return dict.fromkeys(self._worker.ask({"ask": question.text, "most": wanted})["places"])

    def close(self) -> None:
        """Close it; the process goes on."""
        self._worker.ask({"close": True})


@dataclass
class PeerRun(Run):
    """A run of `benchmarks.recall` whose method is a peer's process."""

    worker: Worker | None = None
    versions: dict[str, str] = field(default_factory=dict)

    def made(self, setup: Setup) -> Method:
        """A new memory of the peer's."""
        assert self.worker is not None
        return Remote(self.worker)

    def record(self) -> dict[str, Any]:
        """The choices; `peer` has the versions of what was installed, its own package's first."""
        return {**super().record(), "embedder": shown_adapter(self.embedder), "peer": self.versions}


def measure_peer(
    run: PeerRun, requirements: Sequence[str], data: Path, tables: Path, envs: Path | None, out: Path
) -> None:
    """Measure a peer on one file. Where that fails, the summary and a line on the terminal say why."""
    run.versions = dict(requirement.split("==") for requirement in requirements if "==" in requirement)
    try:
        python = environment(envs / run.method, requirements) if envs else Path(sys.executable)
        table = vector_table(data, run.embedder, run.limit, tables)
        with (
            tempfile.TemporaryDirectory(prefix="peer-", ignore_cleanup_errors=True) as home,
            Worker(python, run.method, requirements, table, Path(home)) as run.worker,
        ):
            run.versions = run.worker.versions
            measure_files(run, [data], out)
    except PeerError as error:
        progress("")
        print(f"{data.name}: {run.method}: not measured: {error}")
        out.unlink(missing_ok=True)
        lost = {"data": data.name, "sha256": sha256(data), "failed": str(error), "figures": {}}
        write_summary(out, {**run.record(), **circumstances(), "sets": [lost]})


def environment(folder: Path, requirements: Sequence[str]) -> Path:
    """The Python of a virtual environment with `requirements`, created unless it is there; PeerError if that fails."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    mark, wanted = folder / "requirements.txt", "\n".join(requirements)
    if not mark.exists() or mark.read_text(encoding="utf-8") != wanted:
        progress(f"installing {', '.join(requirements)}")
        for command in (
            [sys.executable, "-m", "venv", "--clear", folder],
            [python, "-m", "pip", "install", "-q", *requirements],
        ):
            done = subprocess.run([*map(str, command)], capture_output=True, encoding="utf-8", errors="replace")
            if done.returncode:
                raise PeerError(f"not installed: {last_line((done.stdout + done.stderr).splitlines())}")
        mark.write_text(wanted, encoding="utf-8")
    return python


def last_line(lines: Iterable[str]) -> str:
    """The last line that says something, of errors if there are any."""
    said = [line.strip() for line in lines if line.strip()]
    return ([line for line in said if re.match(r"[\w.]*(ERROR|Error)", line)] or said or ["it said nothing"])[-1]


def vector_table(data: Path, model: str, limit: int | None, folder: Path) -> Path:
    """The vectors of all units and questions in `data`, by the keys of their texts; kept in `folder`."""
    name = hashlib.sha256(f"{model} {sha256(data)} {limit}".encode()).hexdigest()[:16]
    path = folder / f"vectors-{name}.npz"
    if not path.exists():
        haystacks = list(read_haystacks(data, limit))
        units = unique(spoken(unit) for haystack in haystacks for unit in haystack.units)
        asked = unique(query.question.text for haystack in haystacks for query in haystack.queries)
        embedder = loaded(model)
        vectors = [*embedded(embedder.embed_documents, units), *embedded(embedder.embed_queries, asked)]
        draft = folder / f"draft-{name}.npz"
        np.savez(draft, keys=[key_of(text) for text in [*units, *asked]], vectors=np.array(vectors, np.float32))
        draft.replace(path)
    return path


def unique(texts: Iterable[str]) -> list[str]:
    """The texts, each once."""
    return list(dict.fromkeys(texts))


def embedded(embed: Callable[[Sequence[str]], Vectors], texts: Sequence[str]) -> Iterator[Vectors]:
    """The vectors of texts, a batch at a time; texts of about the same length go together."""
    found: dict[int, Vectors] = {}
    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    for start in range(0, len(order), BATCH):
        progress(f"embedding {start} of {len(texts)} texts")
        batch = order[start : start + BATCH]
        found.update(zip(batch, embed([texts[at] for at in batch]), strict=True))
    return (found[at] for at in range(len(texts)))


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = command_line("benchmarks.peers", __doc__)
    add = parser.add_argument
    add("--data", type=Path, nargs="+", required=True, metavar="FILE", help="haystacks: JSON lines, also gzip'd")
    add("--budgets", type=budgets, required=True, metavar="N,N", help="token budgets, as in 512,1024,2048")
    add("--model", required=True, metavar="FOLDER", help="a sentence-transformers model, or the name of an embedder")
    add("--envs", type=Path, metavar="FOLDER", help="where the environments are made and kept (default: none are made)")
    add("--peers", type=peers, default=list(PEERS), metavar="NAME,NAME", help=f"of {', '.join(PEERS)} (default: all)")
    add(
        "--out",
        type=Path,
        default=HERE.parent / "results",
        metavar="FOLDER",
        help="where SET.PEER.jsonl go (default: results)",
    )
    add("--limit", type=int, metavar="N", help="only the first N haystacks of each file")
    return parser.parse_args(given)


def peers(text: str) -> list[str]:
    """The peers that `text` names."""
    names = text.split(",")
    if unknown := set(names) - set(PEERS):
        raise ValueError(f"there is no peer {unknown.pop()!r}")
    return names


def main(given: Sequence[str] | None = None) -> None:
    """Measure every peer on every file."""
    args = arguments(given)
    model = f"sentence-transformers:{args.model}" if Path(args.model).is_dir() else args.model
    envs = args.envs.absolute() if args.envs else None
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="peers-") as temporary:
            tables = envs or Path(temporary)
            tables.mkdir(parents=True, exist_ok=True)
            for data in args.data:
                for name in args.peers:
                    run = PeerRun(name, args.budgets, model, limit=args.limit)
                    stem = set_name(data.name)
                    measure_peer(run, PEERS[name], data, tables, envs, args.out / f"{stem}.{name}.jsonl")
    except (TinymemError, OSError) as error:
        sys.exit(f"benchmarks.peers: {error}")


if __name__ == "__main__":
    main()
