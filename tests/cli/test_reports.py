"""Reports on terminals of any width: no line is longer, no number is cut, and every row says step, score and reason."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from commands import Done, Run
from commands import tinymem as tinymem  # the fixture
from hostile import HOSTILE
from memories import START
from rich.cells import cell_len
from typer.testing import CliRunner

from tinymem import ActionStep, HierarchicalMemory, MessageStep, TaskStep
from tinymem.cli.main import app
from tinymem.memory.inspection.report import report_of

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


SIZE = re.compile(r"on disk .*\n")  # opening the journal and filling the index change it


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A memory of some steps, one of them hostile."""
    path = tmp_path / "memory"
    with HierarchicalMemory(path, max_tokens=400) as opened:
        opened.add(TaskStep("Find out where [red]staging runs.", timestamp=START))
        opened.add(MessageStep("user", "The staging server is at 10.0.0.7.", session="may", timestamp=START))
        opened.add(ActionStep("Look.", tool_name="ping", observation=HOSTILE.replace("\ud800", ""), timestamp=START))
        opened.add_steps(
            [MessageStep("user", f"Lot {i} holds {i * 7} crates.", session="june", timestamp=START) for i in range(40)]
        )
    return path


def test_what_is_printed_is_the_report(tinymem: Run, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with HierarchicalMemory(filled, create=False) as opened:
        opened.long_term.queue.embed_pending()
    with HierarchicalMemory(filled, create=False) as opened:
        opened.path = Path("memory")
        report, short = (report_of(opened, steps=steps).text(100) for steps in (5, 16))
        explained = opened.explain("Where is staging?", 200).text(100)
    shown = tinymem("show", "--steps", "5")
    printed = tinymem("show")
    assert (shown.status, SIZE.sub("", shown.out), shown.err) == (0, SIZE.sub("", f"{report}\n"), "")
    assert (printed.status, SIZE.sub("", printed.out), printed.err) == (0, SIZE.sub("", f"{short}\n"), "")
    assert tinymem("visualize") == printed
    assert tinymem("explain", "Where is staging?", "--max-tokens", "200") == Done(0, f"{explained}\n", "")
