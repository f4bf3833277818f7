"""A headless Chromium, driven through the DevTools protocol over two pipes."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

WAIT_SECONDS = 240  # something hangs; no test is about time
# The page gives a request up after 8 s. On a busy machine an answer may take longer.
PATIENT = "AbortController.prototype.abort = () => {};"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
KEYS = {
    "ArrowDown": 40,
    "ArrowLeft": 37,
    "ArrowRight": 39,
    "ArrowUp": 38,
    "End": 35,
    "Enter": 13,
    "Home": 36,
    "PageDown": 34,
    "Tab": 9,
}


def found_browser() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One process; messages end with a zero byte, as --remote-debugging-pipe wants it."""

    def __init__(self, program: str, profile: Path) -> None:
        self._to_child, self._write = os.pipe()
        self._read, self._from_child = os.pipe()
        options = [
            "--headless=new",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--force-color-profile=srgb",
            "--hide-scrollbars",
        ]
        if os.geteuid() == 0:
            options.append("--no-sandbox")
        with (profile / "chromium.log").open("w") as log:
            self.process = subprocess.Popen(
                [program, *options, "about:blank"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(3, 4),
                preexec_fn=self._take_pipes,
            )
        os.close(self._to_child)
        os.close(self._from_child)
        self._buffer = b""
        self._number = 0
        self._replies: dict[int, dict] = {}
        self._pages: dict[str, Page] = {}

    def _take_pipes(self) -> None:
        # Duplicated first: one of them may be 3 or 4 itself.
        ends = os.dup(self._to_child), os.dup(self._from_child)
        for wanted, end in zip((3, 4), ends, strict=True):
            os.dup2(end, wanted)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self._write)
        os.close(self._read)

    def send(self, method: str, session: str | None, parameters: dict) -> int:
        """Waits for no reply; returns the number that it will have."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        return self._number

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict:
        number = self.send(method, session, parameters)
        until = time.monotonic() + WAIT_SECONDS
        while number not in self._replies:
            if not self.listen(until - time.monotonic()):
                raise RuntimeError(f"the browser does not answer {method}")
        reply = self._replies.pop(number)
        if "error" in reply:
            raise RuntimeError(f"{method}: {reply['error']['message']}")
        return reply["result"]

    def listen(self, seconds: float) -> bool:
        """Takes what the browser says within that time; false where it says nothing."""
        if not select.select([self._read], [], [], max(0.0, seconds))[0]:
            return False
        data = os.read(self._read, 1 << 20)
        if not data:
            raise RuntimeError(f"the browser ended with status {self.process.wait()}")
        *messages, self._buffer = (self._buffer + data).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._replies[message["id"]] = message
            elif page := self._pages.get(message.get("sessionId", "")):
                page.heard(message["method"], message["params"])
        return True

    def page(
        self, width: int = 1440, height: int = 900, dark: bool = False, patient: bool = True
    ) -> "Page":
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        page = Page(self, target, attached["sessionId"])
        self._pages[page.session] = page
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        if patient:
            page.call("Page.addScriptToEvaluateOnNewDocument", source=PATIENT)
        page.resize(width, height)
        page.dark(dark)
        return page


class Page:
    def __init__(self, browser: Browser, target: str, session: str) -> None:
        self._browser = browser
        self._target = target
        self.session = session
        # {"source": …, "text": …, "url": …}: errors and warnings; the address of what failed
        self.console: list[dict] = []
        self.requests: list[str] = []  # addresses, in order
        self._answers: dict[str, tuple[int, bytes]] = {}  # by path and query

    def heard(self, method: str, parameters: dict) -> None:
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            said = details.get("exception", {}).get("description", details["text"])
            self.console.append({"source": "exception", "text": said, "url": ""})
        elif method == "Runtime.consoleAPICalled":
            said = " ".join(str(one.get("value", one)) for one in parameters["args"])
            self.console.append({"source": "console", "text": said, "url": ""})
        elif method == "Log.entryAdded":
            entry = parameters["entry"]
            if entry["level"] in ("error", "warning"):
                line = {"source": entry["source"], "text": entry["text"]}
                self.console.append(line | {"url": entry.get("url", "")})
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Fetch.requestPaused":
            self._answer(parameters)

    def _answer(self, paused: dict) -> None:
        url = urlsplit(paused["request"]["url"])
        answers = (f"{url.path}?{url.query}", url.path)
        found = next((self._answers[path] for path in answers if path in self._answers), None)
        reply: dict[str, Any] = {"requestId": paused["requestId"]}
        method = "Fetch.continueRequest"
        if found:
            method = "Fetch.fulfillRequest"
            headers = [{"name": "Content-Type", "value": "application/json"}]
            body = base64.b64encode(found[1]).decode()
            reply |= {"responseCode": found[0], "responseHeaders": headers, "body": body}
        self._browser.send(method, self.session, reply)

    def answer(self, path: str, body: Any, status: int = 200) -> None:
        """From now on the page gets this for the path, whatever the server would say."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._answers[path] = (status, data)
        self.call("Fetch.enable", patterns=[{"urlPattern": "*/v1/*"}])

    def asked(self, path: str) -> int:
        return sum(url.split("?")[0].endswith(path) for url in self.requests)

    def call(self, method: str, **parameters: Any) -> dict:
        return self._browser.call(method, self.session, **parameters)

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def dark(self, wanted: bool, reduced_motion: bool = False) -> None:
        features = {
            "prefers-color-scheme": "dark" if wanted else "light",
            "prefers-reduced-motion": "reduce" if reduced_motion else "no-preference",
        }
        values = [{"name": name, "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", features=values)

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, or what its promise comes to."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Until the expression is true."""
        until = time.monotonic() + WAIT_SECONDS
        while not self.evaluate(f"!!({expression})"):
            if time.monotonic() > until:
                shown = self.evaluate("document.body.innerText.slice(0, 2000)")
                raise AssertionError(f"never true: {expression}\n{self.console}\n{shown}")
            self._browser.listen(0.02)

    def noted(self, lines: int) -> int:
        """Lines of the console: the browser notes an answer later than the page has it."""
        until = time.monotonic() + WAIT_SECONDS
        while len(self.console) < lines and time.monotonic() < until:
            self._browser.listen(0.02)
        return len(self.console)

    def press(self, key: str, times: int = 1, shift: bool = False) -> None:
        said = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS.get(key, 0)}
        if key == "Enter":
            said["text"] = "\r"
        for _ in range(times):
            for kind in ("keyDown", "keyUp"):
                self.call("Input.dispatchKeyEvent", type=kind, modifiers=8 * shift, **said)

    def write(self, words: str) -> None:
        self.call("Input.insertText", text=words)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def screenshot(self, path: Path) -> None:
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)
