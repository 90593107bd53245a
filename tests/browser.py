"""Pages in a real browser: what they ask for and say, and how they look on a phone, in the dark, on paper.

Chromium is driven over its own protocol (DevTools), through a pipe: no port, no package.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.waiting import until

NAMES = ("chromium", "chromium-browser", "google-chrome")
PROGRAM = next((found for name in NAMES if (found := shutil.which(name))), None)
needs_browser = pytest.mark.skipif(PROGRAM is None, reason="needs Chromium")
PATIENCE_S = 60.0
PHONE, DESK = 360, 1280
HEIGHT = 800
PAPER = 700  # CSS pixels of A4 between its margins
VIEWS: dict[str, dict[str, object]] = {
    "light": {"width": DESK},
    "dark": {"width": DESK, "dark": True},
    "phone": {"width": PHONE},
    "phone in the dark": {"width": PHONE, "dark": True},
    "print": {"width": PAPER, "printed": True},
}
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
)  # fmt: skip
# Find words whose contrast with their background is below WCAG's 4.5 (3 for large ones), and return it.
PALE_WORDS = """(() => {
  const channels = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const over = (top, below) => {
    const alpha = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map(each => top[each] * alpha + below[each] * (1 - alpha));
  };
  const light = colour => {
    const [r, g, b] = colour.map(each => each / 255).map(
      each => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = element => {
    const below = element.parentElement ? ground(element.parentElement) : [255, 255, 255];
    return over(channels(getComputedStyle(element).backgroundColor), below);
  };
  const pale = {};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const words = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    if (!words || !element.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    if (element.closest('svg, script, style, noscript') || !element.getClientRects().length) continue;
    const style = getComputedStyle(element), behind = ground(element);
    const [a, b] = [over(channels(style.color), behind), behind].map(light).sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    if (ratio < least) pale[words.slice(0, 40)] = Math.round(ratio * 100) / 100;
  }
  return pale;
})()"""


# Find elements that a reader would have to scroll: on paper they are cut off.
CUT_OFF = """[...document.querySelectorAll('body *')].filter(each => each.clientWidth > 1
  && each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).overflowX !== 'visible'
  && each.checkVisibility()).map(each => `${each.tagName} ${each.className}`)"""


@dataclass(slots=True)
class Visit:
    """A page that is open, with what it asked for and what it said on the console."""

    browser: Browser
    session: str
    target: str
    width: int = DESK
    requests: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def ask(self, method: str, **parameters: object) -> dict[str, object]:
        return self.browser.ask(method, self.session, **parameters)

    def evaluate(self, script: str) -> object:
        """Return what a script of this test finds in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        result = answer["result"]
        assert isinstance(result, dict)
        return result.get("value")

    def until(self, script: str) -> object:
        """Wait until a script finds something, and return it."""
        return until(lambda: self.evaluate(script), lambda: f"the page never fulfilled {script}")

    def look(self, *, width: int = DESK, dark: bool = False, printed: bool = False) -> None:
        """Show the page on a narrow screen, in dark mode, or on paper."""
        self.width = width
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=HEIGHT, deviceScaleFactor=1, mobile=width <= PHONE,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media="print" if printed else "screen", features=[scheme])

    def too_wide(self) -> int:
        """Return by how many pixels the page is wider than its screen."""
        wide = self.evaluate("document.documentElement.scrollWidth")
        assert isinstance(wide, int)
        return wide - self.width

    def pale_words(self) -> object:
        return self.evaluate(PALE_WORDS)

    def picture(self, path: Path, *, whole: bool = False) -> Path:
        answer = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(str(answer["data"])))
        return path

    def heard(self, event: dict[str, object]) -> None:
        parameters = event["params"]
        assert isinstance(parameters, dict)
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(str(parameters["request"]["url"]))
        if event["method"] == "Runtime.consoleAPICalled":
            self.said += [str(each.get("value")) for each in parameters["args"]]
        if event["method"] == "Runtime.exceptionThrown":
            self.said.append(str(parameters["exceptionDetails"]))
        if event["method"] == "Log.entryAdded":
            self.said.append(str(parameters["entry"]["text"]))

    def asked_elsewhere(self, *allowed: str) -> list[str]:
        """List the requests to other addresses than the page's own."""
        return [url for url in self.requests if not url.startswith(("file:", "data:", "blob:", *allowed))]


class Browser:
    """Chromium without a window; each page is a tab of its own."""

    def __init__(self, folder: Path) -> None:
        assert PROGRAM is not None
        to_read, self._write = _pipe()
        self._read, to_write = _pipe()
        command = shlex.join([PROGRAM, *_OPTIONS, f"--user-data-dir={folder / 'profile'}"])
        self._process = subprocess.Popen(
            ["bash", "-c", f"exec {command} 3<&{to_read} 4>&{to_write}"],
            pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": str(folder)},
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._kept = b""
        self._asked = 0
        self._visits: dict[str, Visit] = {}
        self._events: list[dict[str, object]] = []

    def close(self) -> None:
        self.ask("Browser.close")
        self._process.wait(PATIENCE_S)
        os.close(self._read)
        os.close(self._write)

    @contextmanager
    def visit(
        self, url: str, *, width: int = DESK, dark: bool = False, printed: bool = False
    ) -> Iterator[Visit]:
        """Open a page, and leave it at the end."""
        target = str(self.ask("Target.createTarget", url="about:blank")["targetId"])
        session = str(self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        visit = self._visits[session] = Visit(browser=self, session=session, target=target)
        for domain in ("Page", "Network", "Runtime", "Log"):
            visit.ask(f"{domain}.enable")
        visit.look(width=width, dark=dark, printed=printed)
        visit.ask("Page.navigate", url=url)
        visit.until(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")
        try:
            yield visit
        finally:
            del self._visits[session]
            self.ask("Target.closeTarget", targetId=target)

    def ask(self, method: str, session: str | None = None, **parameters: object) -> dict[str, object]:
        """Send a command and return its answer; events of pages in between go to their visits."""
        self._asked += 1
        number = self._asked
        asked: dict[str, object] = {"id": number, "method": method, "params": parameters}
        text = json.dumps({**asked, **({"sessionId": session} if session else {})})
        os.write(self._write, text.encode() + b"\0")
        while True:
            heard = self._next()
            if heard.get("id") == number:
                assert "error" not in heard, heard
                result = heard["result"]
                assert isinstance(result, dict)
                return result
            visit = self._visits.get(str(heard.get("sessionId")))
            if visit and "method" in heard:
                visit.heard(heard)

    def _next(self) -> dict[str, object]:
        while b"\0" not in self._kept:
            assert select.select([self._read], [], [], PATIENCE_S)[0], "Chromium does not answer"
            more = os.read(self._read, 1 << 20)
            assert more, "Chromium has ended"
            self._kept += more
        message, _, self._kept = self._kept.partition(b"\0")
        found = json.loads(message)
        assert isinstance(found, dict)
        return found


def unreadable(visit: Visit) -> Iterator[str]:
    """Say in which views a page is wider than its screen or paper, or has words too pale to read."""
    for name, look in VIEWS.items():
        visit.look(**look)  # type: ignore[arg-type]  # they are its own parameters
        if wide := visit.too_wide():
            yield f"{name}: {wide} pixels too wide"
        if pale := visit.pale_words():
            yield f"{name}: too pale {pale}"
        if look.get("printed") and (cut := visit.evaluate(CUT_OFF)):
            yield f"{name}: cut off {cut}"


def _pipe() -> tuple[int, int]:
    """Return the ends of a pipe with numbers above 3 and 4, which Chromium uses itself."""
    low = os.pipe()
    read, write = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return read, write
