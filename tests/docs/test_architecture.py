"""docs/architecture.md shows the repository as it is; pages and decisions that are linked are there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXT = (DOCS / "architecture.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.skipif(not (ROOT / "tinymem").is_dir(), reason="the tests run beside an installed wheel")


def drawn() -> list[set[str]]:
    """The packages in the drawing that stand side by side, from the top to the bottom."""
    rows: dict[int, set[str]] = {}
    drawing = (DOCS / "images" / "packages.svg").read_text("utf-8")
    for y, name in re.findall(r'<text class="name" x="\d+" y="(\d+)">tinymem\.(\w+)</text>', drawing):
        rows.setdefault(int(y), set()).add(name)
    return [rows[y] for y in sorted(rows)]


def test_every_file_and_folder_that_is_named_exists() -> None:
    named = re.findall(r"`((?:tinymem|stores|embedders)/[\w./]*)`", TEXT)
    assert len(named) >= 40
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_package_is_in_the_drawing_and_the_table() -> None:
    packages = {path.name for path in (ROOT / "tinymem").iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert len(packages) >= 10
    assert "](images/packages.svg)" in TEXT
    assert packages <= set().union(*drawn())
    for package in packages:
        assert f"| `{package if package in ('embedders', 'stores') else f'tinymem/{package}'}/` |" in TEXT


def test_the_drawing_names_only_what_exists() -> None:
    for name in set().union(*drawn()):
        assert (ROOT / "tinymem" / name).is_dir() or (ROOT / "tinymem" / f"{name}.py").is_file(), name


def test_the_drawing_has_the_order_of_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (order,) = (one["layers"] for one in contracts if one["type"] == "layers" and "tinymem.cli" in one["layers"])
    layers = [{name.removeprefix("tinymem.") for name in layer.split(" | ")} for layer in order]
    assert [row - {"data"} for row in drawn()] == layers  # which the recall reads, and nothing imports


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        path, _, heading = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if heading:
            lines = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in [re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines], link


def test_there_is_a_decision_for_each_page_of_the_list() -> None:
    pages = {path.name for path in (DOCS / "decisions").glob("*.md")} - {"README.md"}
    listed = re.findall(r"\]\((\w[\w-]*\.md)\)", (DOCS / "decisions" / "README.md").read_text(encoding="utf-8"))
    assert set(listed) == pages and len(pages) >= 5
    for name in pages:
        text = (DOCS / "decisions" / name).read_text(encoding="utf-8")
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Figures", "Consequences"], name
