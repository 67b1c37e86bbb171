"""A plugin of pytest that writes down which tests were skipped, so that they can be run where more is installed."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the file for them."""
    parser.addoption("--skipped", type=Path, required=True, help="the file for the ids of skipped tests, one a line")


class _Skipped:
    """Tests and modules that were skipped, as the process that reports all tests hears of them."""

    def __init__(self, path: Path) -> None:
        self.path, self.ids = path, dict[str, None]()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.ids[report.nodeid] = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self.ids[report.nodeid] = None

    def pytest_sessionfinish(self) -> None:
        self.path.write_text("".join(f"{id}\n" for id in self.ids), "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Listen in the process that reports, and in none of its workers."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Skipped(config.getoption("skipped")))
