"""The inspector in a real browser: Debian's chromium, headless, by selenium. Skipped where they are not installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import child_environment, interruptible
from memories import START
from work import PATIENCE

from tinymem import ActionStep, HierarchicalMemory, MessageStep, TaskStep
from tinymem.cli.inspector.page import page as made_page
from tinymem.cli.inspector.snapshot import snapshot
from tinymem.cli.inspector.view import View

selenium = pytest.importorskip("selenium", reason="selenium is not installed")
pytest.importorskip("uvicorn", reason="the extra inspect is not installed")

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="chromium and its driver are not installed"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets of selenium
]

EVIL = "</script><img src=x onerror='window.harmed = true'><script>window.harmed = true</script><b>bold</b>"
LOTS = 1_500
LOGS = {"browser": "ALL", "performance": "ALL"}


class Page:
    """A page in the browser, by what a person sees and does."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver = driver
        self.requests()  # those of pages before
        driver.get("about:blank")
        driver.get(address)
        self.until("return document.documentElement.dataset.ready === 'true'")

    def run(self, script: str, *given: Any) -> Any:
        return self.driver.execute_script(script, *given)

    def until(self, script: str, *given: Any) -> Any:
        """Wait until a script returns something true, and return that."""
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, 60).until(lambda _: self.run(script, *given))

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def click(self, selector: str) -> None:
        self.until("return document.querySelector(arguments[0])", selector).click()

    def type(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def fill(self, selector: str, text: str) -> None:
        field = self.until("return document.querySelector(arguments[0])", selector)
        field.clear()
        field.send_keys(text)

    def slide(self, selector: str, position: int) -> None:
        """Move a slider, as a finger does."""
        script = """
            const field = document.querySelector(arguments[0]);
            field.value = arguments[1];
            field.dispatchEvent(new Event("input"));
        """
        self.run(script, selector, position)

    def errors(self) -> list[str]:
        return [one["message"] for one in self.driver.get_log("browser") if one["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """The addresses that were asked for since the last call."""
        messages = [json.loads(one["message"])["message"] for one in self.driver.get_log("performance")]
        sent = (one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent")
        return [url for url in sent if not url.startswith(("data:", "about:", "chrome:"))]


Open = Callable[[str], Page]


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", LOGS)
    running = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield running
    running.quit()


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


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a memory that is served by the command."""
    path = tmp_path_factory.mktemp("served") / "memory"
    fill(path)
    command = [*interruptible(), "inspect", "--path", str(path)]
    with subprocess.Popen(command, env=child_environment(), stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr
        yield running.stderr.readline().strip()
        running.send_signal(2)
        running.wait(PATIENCE)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the page in a file."""
    folder = tmp_path_factory.mktemp("written")
    fill(folder / "memory")
    with HierarchicalMemory(folder / "memory") as memory:
        (folder / "page.html").write_text(made_page(snapshot(View(memory), 300, ["What is the gate code?"])), "utf-8")
    return (folder / "page.html").as_uri()


@pytest.fixture
def opened(driver: Any) -> Iterator[Open]:
    """Opens pages, and looks after the test for errors and for requests to anybody else."""
    pages: list[Page] = []

    def opening(address: str) -> Page:
        pages.append(Page(driver, address))
        return pages[-1]

    yield opening
    for one in pages:
        origin = re.match(r"file:///|http://[^/]+/", str(one.driver.current_url))
        assert origin and one.errors() == []
        assert [url for url in one.requests() if not url.startswith(origin[0])] == []


def test_text_of_a_memory_never_becomes_markup(served: str, opened: Open) -> None:
    page = opened(served)
    page.fill(".filters input", "2\n")
    page.until("return [...document.querySelectorAll('.list .row')].find((row) => row.title === '#2')").click()
    page.until("return document.querySelector('#detail dl')")
    assert page.text("#detail").count("onerror='window.harmed = true'") >= 4
    page.type("\ue00c")  # Escape
    page.until("return document.querySelector('#detail').hidden")
    page.type("2")
    page.fill(".ask input", "bold script")
    page.until("return document.querySelector('.excerpt')")
    for view in ("3", "4", "1"):
        page.run("document.activeElement.blur()")
        page.type(view)
    assert page.run("return [window.harmed, document.scripts.length, document.images.length]") == [None, 2, 0]


def test_a_file_works_without_a_server(written: str, opened: Open) -> None:
    page = opened(written)
    page.until("return document.querySelector('.list').innerText.includes('4711')")
    page.fill(".filters .find", "gate CODE\n")
    page.until("return document.querySelector('.count').innerText === '1 to 1 of 1 step'")
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
    page.type("/")
    page.type("What is the gate code?")
    page.until("return document.querySelector('.excerpt')?.innerText.includes('4711')")
    shown = "return document.querySelectorAll('.excerpt:not(.missed)').length"
    page.slide(".ask input[type=range]", 10)
    page.until("return document.querySelector('.summary')?.innerText.includes('of 88 tokens')")
    few = page.run(shown)
    assert "of 88 tokens" in page.text(".summary") and page.text(".missed .reason")
    page.slide(".ask input[type=range]", 80)
    page.until("return document.querySelector('.summary').innerText.includes('of 1,000 tokens')")
    assert page.run(shown) > few >= 1
    page.click(".excerpt .shares summary")
    assert "constant" in page.text(".excerpt .shares dl") and "score" in page.text(".excerpt .shares dl")
