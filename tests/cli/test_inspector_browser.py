"""The inspector in a real browser, as a person sees and uses it. Skipped where Debian's chromium is not installed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from browser import CHROMIUM, DRIVER, Browser
from commands import child_environment, interruptible
from memories import START
from work import PATIENCE

from tinymem import ActionStep, HierarchicalMemory, MessageStep, TaskStep
from tinymem.cli.inspector.page import page as made_page
from tinymem.cli.inspector.snapshot import snapshot
from tinymem.cli.inspector.view import View

pytest.importorskip("uvicorn", reason="the extra inspect is not installed")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="chromium and its driver are not installed"),
]

EVIL = "</script><img src=x onerror='window.harmed = true'><script>window.harmed = true</script><b>bold</b>"
LOTS = 1_500
ENTER, ESCAPE, TAB = "\ue007", "\ue00c", "\ue004"
Open = Callable[[str], Browser]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


def fill(path: Path) -> None:
    """Make a memory of three sessions; one of its steps would be markup."""
    with HierarchicalMemory(path, embedder="hashing", store="exact", max_tokens=600) as memory:
        memory.add(TaskStep("Count the crates.", timestamp=START))
        memory.add(ActionStep(EVIL, tool_name=EVIL, observation=EVIL, session=EVIL, speaker=EVIL, timestamp=START))
        lots = [*range(1, LOTS), 1]  # the last repeats the first
        steps = [MessageStep("user", f"Lot {i} has {i * 7} crates.", session="lots") for i in lots]
        memory.add_steps([*steps, MessageStep("user", "The gate code is 4711.", session="gate")])
        memory.medium_term.settle()
        memory.long_term.queue.embed_pending()


@contextmanager
def serving(path: Path, *options: str) -> Iterator[str]:
    """Serve the page of a memory by the command, and say where."""
    command = [*interruptible(), "inspect", "--path", str(path), *options]
    with subprocess.Popen(command, env=child_environment(), stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr
        yield running.stderr.readline().strip()
        running.send_signal(2)
        running.wait(PATIENCE)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a memory that tests only read."""
    path = tmp_path_factory.mktemp("served") / "memory"
    fill(path)
    with serving(path) as address:
        yield address


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the page in a file."""
    folder = tmp_path_factory.mktemp("written")
    fill(folder / "memory")
    with HierarchicalMemory(folder / "memory") as memory:
        (folder / "page.html").write_text(made_page(snapshot(View(memory), 300, ["What is the gate code?"])), "utf-8")
    return (folder / "page.html").as_uri()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Opens a page, and looks after the test for errors and for requests to anybody else."""

    def opening(address: str) -> Browser:
        browser.open("about:blank")
        browser.requests()  # those of the page before
        browser.open(address)
        browser.until("return document.documentElement.dataset.ready === 'true'")
        return browser

    yield opening
    origin = re.match(r"file:///|http://[^/]+/", browser.run("return location.href"))
    assert origin and browser.errors() == []
    assert [url for url in browser.requests() if not url.startswith(origin[0])] == []


def test_text_of_a_memory_never_becomes_markup(served: str, opened: Open) -> None:
    page = opened(served)
    page.fill(".filters input", f"2{ENTER}")
    page.click(".list .row[title='#2']")
    page.until("return document.querySelector('#detail dl')")
    assert page.text("#detail").count("onerror='window.harmed = true'") >= 4
    page.type(ESCAPE)
    page.until("return document.querySelector('#detail').hidden")
    page.type("2")
    page.fill(".ask input", "bold script")
    page.until("return document.querySelector('.excerpt')")
    for view in ("3", "4", "1"):
        page.run("document.activeElement.blur()")
        page.type(view)
    assert page.run("return [window.harmed, document.scripts.length, document.images.length]") == [None, 2, 0]


def test_a_file_works_without_a_server_and_changes_nothing(written: str, opened: Open) -> None:
    page = opened(written)
    page.until("return document.querySelector('.list').innerText.includes('4711')")
    page.fill(".filters .find", f"gate CODE{ENTER}")
    page.until("return document.querySelector('.count').innerText === '1 to 1 of 1 step'")
    page.click(".list .row")
    assert page.until("return document.querySelector('#detail footer').innerText") == "Show in the timeline"
    page.type("f")
    assert not page.run("return document.querySelector('#dialog').open") and "only shows" in page.text("#toasts")
    page.type(ESCAPE)
    page.run("document.activeElement.blur()")
    assert "newest 300 of" in page.text("#notice")
    page.type("2")
    page.until("return document.querySelector('.excerpt')?.innerText.includes('4711')")
    assert "tinymem inspect" in page.text(".recall-view")
    page.slide(".ask input[type=range]", 0)
    page.until("return document.querySelector('.summary').innerText.includes('of 256 tokens')")
    page.run("document.activeElement.blur()")
    page.type("4")
    page.click(".episode summary")
    page.until("return document.querySelectorAll('.covered .step').length > 1")
    assert all(url.startswith("file:///") for url in page.requests())


def test_what_comes_back_follows_the_slider(served: str, opened: Open) -> None:
    page = opened(served)
    page.type("/", "crates")
    page.until("return document.querySelector('.answer .excerpt').innerText.includes('crates')")
    shown = "return document.querySelectorAll('.answer .excerpt:not(.next)').length"
    counts = []
    for position, budget in ((10, "88"), (80, "1,000")):
        page.slide(".ask input[type=range]", position)
        page.until("return document.querySelector('.summary').innerText.includes(arguments[0])", f"of {budget} tokens")
        counts.append(page.run(shown))
    assert 1 <= counts[0] < counts[1]
    page.click(".excerpt .shares summary")
    assert "constant" in page.text(".excerpt .shares dl") and "score" in page.text(".excerpt .shares dl")


def test_a_statement_is_corrected_marked_and_forgotten_by_keys(tmp_path: Path, opened: Open) -> None:
    with HierarchicalMemory(tmp_path, embedder="hashing", store="exact") as memory:
        for text in ("The port of staging is 8443.", "The gate code is 4711."):
            memory.archive([MessageStep("user", text, timestamp=START)])
    with serving(tmp_path) as address, HierarchicalMemory(tmp_path, create=False) as memory:
        page = opened(address)
        page.type("/", "Which port has staging?")
        page.until("return document.querySelector('.excerpt').innerText.includes('8443')")
        while not page.run("return document.activeElement.matches('.excerpt button')"):
            page.type(TAB)
        page.type(ENTER)
        page.until("return !document.querySelector('#detail').hidden")
        assert page.run("return document.activeElement.matches('#detail :focus-visible')")
        page.type("c")
        page.fill("dialog textarea", " ")
        page.type(ENTER)
        page.until("return document.querySelector('dialog .error').innerText.includes('correction is empty')")
        page.type(ESCAPE)
        assert memory.stats().steps == 2
        page.type("c")
        page.fill("dialog textarea", f"The port of staging is 8444.{ENTER}")
        page.until("return document.querySelector('.effect')")
        assert "8443" in page.text(".effect section:first-child .changed")
        assert "8444" in page.text(".effect section:last-child .changed")
        assert "8444" in memory.recall("Which port has staging?").text
        page.type(ESCAPE)
        history = page.until("return document.querySelector('.history')?.innerText")
        assert "8443" in history and "8444" in history and "holds now" in history
        page.type("m")
        page.until("return document.querySelector('dialog[open] h2').innerText.includes('is a milestone')")
        page.type(ENTER)
        page.until("return document.querySelector('#detail footer').innerText.includes('Unmark')")
        page.type("f", ESCAPE, "f", ENTER)
        page.until("return document.querySelector('dialog[open] h2').innerText === '#1 is forgotten'")
        page.type(ESCAPE)
        page.until("return document.querySelector('#detail').hidden")
        assert [step.text for step in memory.history()] == ["The gate code is 4711.", "The port of staging is 8444."]
