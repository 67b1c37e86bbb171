"""Reports on terminals of any width: no line is longer, no number is cut, and every row says step, score and reason."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner

from tinymem import ActionStep, HierarchicalMemory, MessageStep, TaskStep
from tinymem.cli.main import app

QUESTION = "which sensor stopped the crane at quay nine"


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memory")
    with HierarchicalMemory(folder, store="exact", max_tokens=1_500) as memory:
        memory.add(TaskStep("Find out why the crane at quay nine stops at noon, and mend it."))
        for day in range(60):
            session = f"the daily standup of the harbour team, {day % 3}"
            text = (
                f"On day {day} sensor SN-{1_000 + day} stopped the crane at quay {day % 11} after {day * 37:,} tonnes."
            )
            memory.add(MessageStep("user", text, session=session, speaker="Ines from the workshop"))
            log = "overload, torque\n" * 60
            step = ActionStep(f"Look at day {day}.", tool_name="read_the_crane_log", observation=log, session=session)
            memory.add(step)
        memory.flush()
    return folder


def printed(memory: Path, width: int, *args: str) -> str:
    result = CliRunner(env={"COLUMNS": str(width)}).invoke(app, [*args, "--path", str(memory)])
    assert result.exit_code == 0, result.output
    return result.stdout


ROWS = {
    "explain": r"^ *#\d+  [\d-]{10}  [+-]\d+\.\d\d .*",
    "context": r"^recall +#\d+ message +\d+ tokens +[+-]\d+\.\d\d.*",
}
REASON = re.compile(r"[a-z]\w+\s+[+-]\d+\.\d\d")


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("asked", [("explain", QUESTION), ("context", QUESTION)])
def test_every_row_says_step_score_and_reason_in_lines_that_fit(
    memory: Path, asked: tuple[str, ...], width: int
) -> None:
    command = asked[0]
    shown, wide = (printed(memory, columns, *asked, "--max-tokens", "900") for columns in (width, 400))
    assert max(map(cell_len, shown.splitlines())) <= width
    rows = [re.findall(rf"{ROWS[command]}(?:\n +(?!#).*)*", text, re.MULTILINE) for text in (shown, wide)]
    assert len(rows[0]) == len(rows[1]) > 3
    for narrow, whole in zip(*rows, strict=True):
        reasons = [[" ".join(reason.split()) for reason in REASON.findall(row)] for row in (narrow, whole)]
        assert reasons[0] == reasons[1] != []


@pytest.mark.parametrize("width", [60, 80, 120])
def test_reports_fit_and_cut_no_number(memory: Path, width: int) -> None:
    shown, report = printed(memory, width, "show"), json.loads(printed(memory, width, "show", "--json"))
    assert max(map(cell_len, shown.splitlines())) <= width
    rows = [*report["tiers"], *report["sessions"], *report["episodes"], *report["listed"]]
    numbers = {f"{row[name]:,}" for row in rows for name in ("steps", "tokens", "number") if name in row}
    assert len(numbers) > 20 and numbers <= set(shown.split())
