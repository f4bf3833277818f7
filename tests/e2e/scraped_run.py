"""A run of two ranks that a Prometheus server scrapes, and questions to that server."""

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from conftest import by_rank
from processes import ROOT, TIMEOUT_SECONDS, environment, free_port, run, script

RANKS = 2
DASHBOARDS = ROOT / "dashboards"
PROGRAM = "tests/e2e/stages_train.py"
OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def target(base: int) -> str:
    """What serves the series of all ranks: local rank 0."""
    return f"127.0.0.1:{base}"


def get(address: str, path: str, accept: str = "*/*") -> tuple[str, str]:
    """The answer's content type and text."""
    request = urllib.request.Request(f"http://{address}{path}", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def eventually(ask: Callable[[], object], process: subprocess.Popen) -> object:
    """What `ask` gives, once it is something, while the process lives."""
    until = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < until:
        assert process.poll() is None, "a process that was to go on has ended"
        try:
            if found := ask():
                return found
        except OSError:
            pass  # it does not answer yet
        time.sleep(0.1)
    raise AssertionError("nothing came of it")


@dataclass
class Prometheus:
    address: str
    process: subprocess.Popen

    def ask(self, path: str, **arguments: str) -> dict:
        query = urllib.parse.urlencode(arguments)
        try:
            _, text = get(self.address, f"/api/v1/{path}?{query}")
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error
        return json.loads(text)["data"]

    def query(self, expression: str) -> list[dict]:
        return self.ask("query", query=expression)["result"]

    def data(self, expression: str) -> list[dict]:
        """Once there are some: rates need two scrapes with a step between."""
        return eventually(lambda: self.query(expression), self.process)


@dataclass
class ScrapedRun:
    """While it trains, and what it left."""

    folder: Path
    base: int
    prometheus: Prometheus
    training: subprocess.Popen
    text: str = ""  # by a plain scrape of its target

    def text_file(self, rank: int) -> Path:
        return self.folder / f"rank-{rank}.prom"

    def end(self) -> str:
        (self.folder / "end").touch()
        output, _ = self.training.communicate(timeout=TIMEOUT_SECONDS)
        assert self.training.returncode == 0, output
        return output


@contextmanager
def started(command: list[str], **options: object) -> Iterator[subprocess.Popen]:
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        **options,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def configuration(base: int, folder: Path) -> Path:
    """The one that users get, but for where the run is, and for our patience."""
    config = yaml.safe_load((DASHBOARDS / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    config["rule_files"] = [str(DASHBOARDS / name) for name in config["rule_files"]]
    (scrape,) = config["scrape_configs"]
    scrape["static_configs"] = [{"targets": [target(base)]}]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    return path


@contextmanager
def prometheus(base: int, port: int, folder: Path) -> Iterator[Prometheus]:
    address = f"127.0.0.1:{port}"
    options = {
        "config.file": configuration(base, folder),
        "storage.tsdb.path": folder / "database",
        "web.listen-address": address,
    }
    command = ["prometheus", *(f"--{name}={value}" for name, value in options.items())]
    with (folder / "prometheus.log").open("w") as log, started(command, stdout=log) as process:
        server = Prometheus(address, process)
        eventually(lambda: get(address, "/-/ready"), process)
        yield server


@contextmanager
def scraped_run(folder: Path) -> Iterator[ScrapedRun]:
    """Under a budget that spilling can hold, while plans have to leave 1 MiB of it free."""
    measuring = script(PROGRAM, "--steps", "3", ranks=RANKS)
    measured = run(measuring, {"EBBTIDE": "1"}, folder / "measured").succeeded()
    budgets = [
        report["plain_peak_bytes"] - report["activation_bytes"] // 16 for report in measured.reports
    ]
    program = script(PROGRAM, "--until", str(folder / "end"), ranks=RANKS)
    base = free_port(RANKS + 1)  # the last one is the server's
    variables = {
        "EBBTIDE_BUDGET": by_rank(budgets),
        "EBBTIDE_PORT": str(base),
        "EBBTIDE_TEXTFILE": str(folder / "rank-{rank}.prom"),
    }
    with (
        prometheus(base, base + RANKS, folder) as server,
        started(
            list(program.command),
            env=environment(program, variables, folder),
            cwd=folder,
            stdout=subprocess.PIPE,
        ) as training,
    ):
        scraped = ScrapedRun(folder, base, server, training)
        planned = "count(ebbtide_plan_info)"
        eventually(lambda: server.query(f"{planned} == {RANKS}"), training)
        scraped.text = get(target(base), "/metrics")[1]
        yield scraped
