"""Pages for those who work on tinymem: what they draw, list and have one run is so."""

from __future__ import annotations

import re
import sys

import pytest
from pages import REPOSITORY, needs_sources

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

DOCS = REPOSITORY / "docs"
pytestmark = needs_sources


def test_the_drawing_has_every_package_in_the_order_of_the_contract() -> None:
    drawing = (DOCS / "images" / "packages.svg").read_text("utf-8")
    rows: dict[int, set[str]] = {}
    for y, name in re.findall(r'<text class="name" x="\d+" y="(\d+)">tinymem\.(\w+)</text>', drawing):
        rows.setdefault(int(y), set()).add(name)
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (order,) = (one["layers"] for one in contracts if one["type"] == "layers" and "tinymem.cli" in one["layers"])
    layers = [{name.removeprefix("tinymem.") for name in layer.split(" | ")} for layer in order]
    assert [rows[y] - {"data"} for y in sorted(rows)] == layers  # which the recall reads, and nothing imports
    folders = (REPOSITORY / "tinymem").iterdir()
    packages = {path.name for path in folders if path.is_dir() and not path.name.startswith("__")}
    table = (DOCS / "architecture.md").read_text("utf-8")
    assert packages <= set().union(*rows.values())
    for package in packages:
        assert f"| `{package if package in ('embedders', 'stores') else f'tinymem/{package}'}/` |" in table


def test_what_the_architecture_says_where_to_look_for_is_there() -> None:
    _, _, rest = (DOCS / "architecture.md").read_text("utf-8").partition("## Where to look\n")
    rows = [line.split("|")[2:4] for line in rest.partition("\n## ")[0].splitlines() if "`" in line]
    assert len(rows) >= 10
    for files, names in rows:
        places = zip(re.findall(r"`(\S+)`", files), re.findall(r"`(\w+)`", names), strict=True)
        for file, name in places:
            assert re.search(rf"(?:def|class) {name}\b", (REPOSITORY / file).read_text("utf-8")), (file, name)
