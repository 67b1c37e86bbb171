"""The page on adapters: its first blocks run, and it has a section for each adapter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "integrations.md"
TEXT = PAGE.read_text(encoding="utf-8")
NO_ADAPTERS = ("__init__.py", "native.py", "recent.py")  # what several share


def test_the_blocks_that_need_no_framework_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second, *_ = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {"__name__": "page"}
    exec(compile(first, str(PAGE), "exec"), names)
    assert names["request"] == {"messages": names["history"]}
    exec(compile(second, str(PAGE), "exec"), names)
    assert list(names["request"]) == ["system", "messages"]
    names["memory"].close()  # type: ignore[attr-defined]


def test_every_adapter_is_on_the_page() -> None:
    found = sorted((REPOSITORY / "tinymem" / "integrations").glob("*.py"))
    adapters = [path.stem for path in found if path.name not in NO_ADAPTERS]
    assert [name for name in adapters if f"from tinymem.integrations.{name} import" not in TEXT] == []
