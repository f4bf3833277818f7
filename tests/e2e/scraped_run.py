"""A run of two ranks that a Prometheus server scrapes, alone and beside made-up jobs, and questions
to that server."""

import json
import math
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from conftest import by_rank
from page_serving import SERVE
from processes import ROOT, TIMEOUT_SECONDS, end, environment, free_port, run, script
from warm_interpreter import Popen

RANKS = 2
JOB_ID = "port-29500"  # as of a job that nobody named
OTHER_JOB_ID = "other"
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


def text_of_all(address: str) -> str:
    """Empty unless all ranks have answered: the server leaves out one that is busy for a second."""
    _, text = get(address, "/metrics")
    answered = rf"^ebbtide_node_ranks_answered{{.*}} {RANKS}$"
    return text if re.search(answered, text, re.MULTILINE) else ""


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

    def figures(self, expression: str, at_least: int = 1) -> list[dict]:
        """Those that are finite, once there are so many."""

        def ask() -> list[dict]:
            series = self.query(expression)
            finite = [one for one in series if math.isfinite(float(one["value"][1]))]
            return finite if len(finite) >= at_least else []

        try:
            return eventually(ask, self.process)
        except AssertionError as error:
            raise AssertionError(f"{expression}: {self.query(expression)}") from error


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


@dataclass
class Crowd:
    """A server that scrapes the run and, of other machines, made-up jobs."""

    prometheus: Prometheus
    jobs: set[tuple[str, str]]  # instance and job id


@contextmanager
def started(command: list[str], **options: object) -> Iterator[subprocess.Popen]:
    with Popen(
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
            end(process)


def configuration(targets: list[str], folder: Path) -> Path:
    """The one that users get, but for where the run is, and for our patience."""
    config = yaml.safe_load((DASHBOARDS / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    config["rule_files"] = [str(DASHBOARDS / name) for name in config["rule_files"]]
    (scrape,) = config["scrape_configs"]
    scrape["static_configs"] = [{"targets": targets}]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    return path


@contextmanager
def prometheus(targets: list[str], port: int, folder: Path) -> Iterator[Prometheus]:
    address = f"127.0.0.1:{port}"
    options = {
        "config.file": configuration(targets, folder),
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
        "EBBTIDE_JOB_ID": JOB_ID,
    }
    with (
        tempfile.TemporaryDirectory(prefix="ebb-", dir="/tmp") as sockets,  # their names are short
        prometheus([target(base)], base + RANKS, folder) as server,
        started(
            list(program.command),
            env=environment(program, variables | {"EBBTIDE_SOCKET_DIR": sockets}, folder),
            cwd=folder,
            stdout=subprocess.PIPE,
        ) as training,
    ):
        scraped = ScrapedRun(folder, base, server, training)
        planned = "count(ebbtide_plan_info)"
        eventually(lambda: server.query(f"{planned} == {RANKS}"), training)
        scraped.text = eventually(lambda: text_of_all(target(base)), training)
        yield scraped


@contextmanager
def made_up(job_id: str) -> Iterator[str]:
    """A machine with eight ranks of that job. What to scrape."""
    with (
        tempfile.TemporaryDirectory(prefix="ebb-", dir="/tmp") as folder,
        started(
            [str(SERVE), "--ranks", "8", "--job-id", job_id, "--socket-dir", folder],
            stdout=subprocess.PIPE,
        ) as server,
    ):
        yield target(json.loads(server.stdout.readline())["port"])


@contextmanager
def beside_other_jobs(scraped: ScrapedRun, folder: Path) -> Iterator[Crowd]:
    with ExitStack() as stack:
        jobs = {(target(scraped.base), JOB_ID)}
        for job_id in (JOB_ID, OTHER_JOB_ID):
            jobs.add((stack.enter_context(made_up(job_id)), job_id))
        targets = [instance for instance, _ in jobs]
        server = stack.enter_context(prometheus(targets, free_port(), folder))
        up = f"count(ebbtide_rank_info) == {RANKS + 2 * 8}"
        eventually(lambda: server.query(up), server.process)
        yield Crowd(server, jobs)
