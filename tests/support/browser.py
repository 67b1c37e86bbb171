"""Debian's Chromium without a window, told what to do in WebDriver's own words (W3C): tests need no library for it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterable
from typing import Any

from work import PATIENCE

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,900"]
LOGS = {"browser": "ALL", "performance": "ALL"}
UNTIL = """
    const given = [...arguments], done = given.pop();
    const script = function () {{ {script} }};
    const look = () => {{
      let found = null;
      try {{ found = script(...given); }} catch {{ /* what it looks at is not there yet */ }}
      if (found) done(found);
      else setTimeout(look, 10);
    }};
    look();
"""  # what waits is the page, so no clock of the test's decides
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element in WebDriver's JSON


class BrowserError(Exception):
    """What the browser says went wrong."""


class Browser:
    """One window of a browser, which is started and ended with the block."""

    def __enter__(self) -> Browser:
        command = [DRIVER or "", "--port=0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout
        try:
            self._address = self._start(self._process.stdout)
        except BaseException:
            self._process.kill()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._send("DELETE", "")
        finally:
            self._process.terminate()
            self._process.communicate()

    def _start(self, said: Iterable[str]) -> str:
        """Open the window, and return the address of what is done in it."""
        ports = (re.search(r"started successfully on port (\d+)", line) for line in said)
        self._address = f"http://127.0.0.1:{next(filter(None, ports))[1]}/session"
        options = {"binary": CHROMIUM, "args": ARGUMENTS}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": LOGS, "timeouts": {"script": PATIENCE * 1000}}
        session = self._send("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        return f"{self._address}/{session['sessionId']}"

    def open(self, address: str) -> None:
        """Go to an address."""
        self._send("POST", "/url", {"url": address})

    def run(self, script: str, *given: Any) -> Any:
        """Run a script in the page, and return what it returns."""
        return self._send("POST", "/execute/sync", {"script": script, "args": given})

    def until(self, script: str, *given: Any) -> Any:
        """Run a script in the page until it returns something true, and return that."""
        return self._send("POST", "/execute/async", {"script": UNTIL.format(script=script), "args": given})

    def click(self, selector: str) -> None:
        """Click on the first element that is there."""
        element = self.until("return document.querySelector(arguments[0])", selector)
        self._send("POST", f"/element/{element[ELEMENT]}/click", {})

    def type(self, *keys: str) -> None:
        """Press these keys, one after the other, wherever the focus is."""
        presses = [{"type": kind, "value": key} for key in "".join(keys) for kind in ("keyDown", "keyUp")]
        self._send("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": presses}]})

    def text(self, selector: str) -> str:
        """Return the text of the first element, as it is shown."""
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def fill(self, selector: str, text: str) -> None:
        """Type a text in the place of what a field says."""
        self.until(
            "const field = document.querySelector(arguments[0]); field.select(); field.focus(); return 1", selector
        )
        self.type(text)

    def slide(self, selector: str, position: int) -> None:
        """Move a slider, as a finger does."""
        script = """
            const field = document.querySelector(arguments[0]);
            field.value = arguments[1];
            field.dispatchEvent(new Event("input"));
        """
        self.run(script, selector, position)

    def errors(self) -> list[str]:
        """Return what the console says went wrong since the last call, but for mistakes, which the page shows."""
        messages = [one["message"] for one in self._log("browser") if one["level"] in ("SEVERE", "WARNING")]
        return [message for message in messages if "status of 400" not in message]

    def requests(self) -> list[str]:
        """Return the addresses that were asked for since the last call."""
        messages = [json.loads(one["message"])["message"] for one in self._log("performance")]
        sent = (one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent")
        return [url for url in sent if not url.startswith(("data:", "about:", "chrome:"))]

    def _log(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._send("POST", "/se/log", {"type": kind})
        return found

    def _send(self, method: str, path: str, values: Any = None) -> Any:
        body = None if values is None else json.dumps(values).encode()
        request = urllib.request.Request(
            self._address + path, body, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=2 * PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            with error:
                said = json.load(error)["value"]
            raise BrowserError(f"{said['message']}\n{values}") from None
