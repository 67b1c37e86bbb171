"""The page on strategies: its code runs, and its figures are those of the benchmark."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "strategies.md"
RESULTS = REPOSITORY / "benchmarks" / "results" / "pruning.json"


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_code_on_the_page_runs() -> None:
    code = "\n".join(blocks())
    assert "semantic_pruning(" in code and "check_window(" in code
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, str(PAGE), "exec"), names)
    names["check"]()


def test_the_figures_on_the_page_are_those_of_the_benchmark() -> None:
    sets = json.loads(RESULTS.read_text(encoding="utf-8"))["sets"]
    rows = re.findall(
        r"^\| `(\w+)[^|]*\|((?: \.\d\d / \.\d\d / \d?\.\d\d \|){5})$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    assert len(rows) >= 4
    for name, cells in rows:
        key = "prune_old_observations + token_budget" if name == "prune_old_observations" else name
        found = [f"{one['figures'][key][b]['survive']['all']:.2f}" for one in sets for b in ("1000", "2000", "4000")]
        assert [f"{float(cell):.2f}" for cell in re.findall(r"\d?\.\d\d", cells)] == found, name
