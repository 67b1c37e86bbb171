"""CONTRIBUTING.md, the justfile and the hooks name only files, modules and programs that are there."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE, JUSTFILE, HOOKS = ROOT / "CONTRIBUTING.md", ROOT / "justfile", ROOT / ".pre-commit-config.yaml"
PLACEHOLDERS = ("NAME", "PATH")

pytestmark = pytest.mark.skipif(not (ROOT / "tinymem").is_dir(), reason="the tests run beside an installed wheel")


def recipes() -> dict[str, list[str]]:
    """The commands of each recipe that `just` lists."""
    found: dict[str, list[str]] = {}
    for line in JUSTFILE.read_text("utf-8").splitlines():
        if head := re.match(r"^(\w+)[^:=]*:", line):
            found[head[1]] = []
        elif line.startswith("    "):
            [*found.values()][-1].append(line.strip())
    return {name: lines for name, lines in found.items() if not name.startswith("_")}


def spans() -> list[str]:
    """What CONTRIBUTING.md shows in backticks, and the lines of its blocks."""
    text = PAGE.read_text("utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    return inline + [line for block in blocks for line in block.splitlines()]


def commands() -> list[str]:
    lines = [line for some in recipes().values() for line in some]
    lines += re.findall(r"entry: (.+)", HOOKS.read_text("utf-8"))
    shown = [part.strip() for span in spans() for part in span.split("&&")]
    return lines + [part for part in shown if re.match(r"(pip|pytest|ruff|mypy|lint-imports|python3?|\.ci/)\b", part)]


def missing(command: str) -> str | None:
    """What a command needs and is not there."""
    program, *rest = command.split()
    if program.startswith("."):
        return None if (ROOT / program).stat().st_mode & 0o100 else program
    if program.startswith("python"):
        module = rest[rest.index("-m") + 1]
        return None if importlib.util.find_spec(module) else module
    beside = shutil.which(program, path=str(Path(sys.executable).parent)) or shutil.which(program)
    return None if beside else program


def test_every_command_can_be_run() -> None:
    assert len(commands()) >= 12
    assert [lacking for command in commands() if (lacking := missing(command))] == []


def test_the_table_lists_the_recipes() -> None:
    rows = re.findall(r"^\| `just (\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert rows == [*recipes()] and len(rows) == 5


def test_a_check_runs_what_ci_runs() -> None:
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    assert [command for command in recipes()["check"] if command not in ci] == []


def test_files_and_folders_that_are_named_are_there() -> None:
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", PAGE.read_text("utf-8"))]
    paths = [span for span in spans() if re.fullmatch(r"[\w.-]+/[\w./-]*|[\w-]+\.(py|md|toml|json)", span)]
    paths = [path for path in paths if not any(word in path for word in PLACEHOLDERS)]
    here = [link for link in links if "://" not in link] + paths
    assert len(here) >= 15
    assert [path for path in here if not (ROOT / path).exists()] == []


def test_names_of_the_code_that_are_given_exist() -> None:
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "tinymem").rglob("*.py"))
    for name in ("Embedder", "VectorStore", "EMBEDDER_CHECKS", "STORE_CHECKS", "check_persistence"):
        assert f"`{name}`" in PAGE.read_text("utf-8") and re.search(rf"\b{name}\b", source)


def test_the_hooks_need_no_network() -> None:
    text = HOOKS.read_text("utf-8")
    assert re.findall(r"repo: (\S+)", text) == ["local"]
    assert {*re.findall(r"language: (\S+)", text)} == {"system"}
