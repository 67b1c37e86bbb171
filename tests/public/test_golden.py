"""What the library gives in some two hundred scenarios is what it gave when they were written down.

A change that means to give something else writes them again, and says why: TINYMEM_WRITE_GOLDEN=1 pytest -k golden
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from golden import scenarios

GOLDEN = Path(__file__).with_name("golden.json")


def test_every_scenario_gives_what_it_gave(tmp_path: Path) -> None:
    found = json.loads(json.dumps(dict(scenarios(tmp_path))))
    if "TINYMEM_WRITE_GOLDEN" in os.environ:
        lines = [f"{json.dumps(name)}: {json.dumps(record)}" for name, record in found.items()]
        GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    golden = json.loads(GOLDEN.read_text("utf-8"))
    assert found.keys() == golden.keys()
    changed = {name: (golden[name], record) for name, record in found.items() if record != golden[name]}
    assert not changed
