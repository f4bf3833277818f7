"""The page opened from the server with made-up ranks. The fixtures are conftest.py's."""

import json
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from browser import Browser, Page, found_browser
from processes import LIBRARIES, TIMEOUT_SECONDS

SERVE = LIBRARIES.parent / "tests" / "metrics" / "metrics_serve"
LIVE = "document.getElementById('link').dataset.state === 'live'"
READ = "state.plan?.state !== 'waiting' && state.curve?.state !== 'waiting'"


@dataclass
class Server:
    process: subprocess.Popen
    address: str

    def json(self, path: str) -> dict:
        with urllib.request.urlopen(self.address + path) as response:
            return json.load(response)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(TIMEOUT_SECONDS)


Serve = Callable[..., Server]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    servers: list[Server] = []

    def start(ranks: int = 8, *options: str, port: int = 0) -> Server:
        folder = tmp_path / f"s{len(servers)}"
        folder.mkdir(mode=0o700)
        known = ("--ranks", str(ranks), "--port", str(port), "--socket-dir", str(folder))
        process = subprocess.Popen([SERVE, *known, *options], stdout=subprocess.PIPE, text=True)
        said = json.loads(process.stdout.readline())
        servers.append(Server(process, f"http://127.0.0.1:{said['port']}"))
        return servers[-1]

    yield start
    for server in servers:
        server.process.kill()
        server.process.wait()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    profile = tmp_path_factory.mktemp("chromium")
    program = found_browser()
    if not program:
        pytest.skip("no Chromium here: apt-get install chromium")
    with Browser(program, profile) as one:
        try:
            one.call("Browser.getVersion")
        except (OSError, RuntimeError):  # no namespaces for its sandbox, say
            log = (profile / "chromium.log").read_text()
            pytest.skip(f"Chromium does not start here: {log[-500:]}")
        yield one


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    one = browser.page()
    yield one
    one.close()


def opened(page: Page, server: Server, fragment: str = "") -> Page:
    page.open(f"{server.address}/{fragment}")
    page.wait(LIVE)
    page.wait(READ)
    return page


def shown(page: Page, element: str) -> str:
    return page.evaluate(f"document.getElementById({json.dumps(element)}).innerText")


def without_node(page: Page) -> None:
    """From here on the page draws what the test gives it, and reads nothing by itself."""
    page.evaluate("poll = askDetails = () => {}")
    page.evaluate("clearTimeout(polling.timer); clearTimeout(asked.timer)")
    page.wait("!polling.running")  # an answer may have been under way
    page.evaluate("asked.turn += 1")  # a plan or curve that comes later is not taken


def most_rereads(page: Page) -> int:
    """How often the page may have read plan and curve again: every 10 s, by its own clock."""
    return int(page.evaluate("performance.now()") // 10_000)
