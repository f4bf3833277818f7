"""The `ebbtide` program as users type it: against made-up ranks, a real run and a real terminal."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from processes import LIBRARIES, PYTHON, Program, run, tiny
from terminal import Terminal

EBBTIDE = LIBRARIES.parent / "bin" / "ebbtide"
SERVE = LIBRARIES.parent / "tests" / "metrics" / "metrics_serve"
GIB = 1024**3


@dataclass
class Runs:
    """A socket folder with jobs of made-up ranks."""

    folder: str
    processes: list[subprocess.Popen] = field(default_factory=list)

    @property
    def variables(self) -> dict[str, str]:
        dropped = ("EBBTIDE", "COLUMNS", "LINES")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
        return kept | {"EBBTIDE_SOCKET_DIR": self.folder, "TERM": "xterm", "LC_ALL": "C.UTF-8"}

    def serve(self, job: str, ranks: int, *options: str) -> dict:
        command = [SERVE, "--ranks", str(ranks), "--socket-dir", self.folder, "--job-id", job]
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        return json.loads(process.stdout.readline())

    def ebbtide(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [EBBTIDE, *arguments],
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=400,
        )

    def terminal(self, *arguments: str, columns: int = 80, lines: int = 24) -> Terminal:
        return Terminal([str(EBBTIDE), *arguments], self.variables, columns, lines)

    def status(self) -> list[dict]:
        return json.loads(self.ebbtide("status", "--json").stdout)["ranks"]


@pytest.fixture
def runs() -> Iterator[Runs]:
    made = Runs(tempfile.mkdtemp(prefix="ebt-", dir="/tmp"))  # a socket's path has 107 letters
    yield made
    for process in made.processes:
        process.terminate()
        process.wait(60)
        process.stdout.close()
    shutil.rmtree(made.folder, ignore_errors=True)


def leave_dead_socket(path: Path) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))


# --- status and changes ---------------------------------------------------------------------------


def test_status_shows_each_rank(runs: Runs) -> None:
    runs.serve("job", 3)
    leave_dead_socket(Path(runs.folder, "job", "rank-9.sock"))
    done = runs.ebbtide("status")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert lines[0].split()[:4] == ["rank", "state", "step", "step"]
    assert [line.split()[:2] for line in lines[1:]] == [
        ["0", "training"],
        ["1", "training"],
        ["2", "paused"],
    ]
    assert "16.00 GiB" in lines[1] and "/ none" in lines[2]
    assert "skipped rank 9 of job" in done.stderr


def test_status_is_json_as_the_ranks_said_it(runs: Runs) -> None:
    runs.serve("job", 2)
    told = json.loads(runs.ebbtide("status", "--json", "--rank", "1").stdout)
    assert told["job_id"] == "job"
    assert [rank["rank"] for rank in told["ranks"]] == [1]
    assert told["ranks"][0]["memory"]["budget_bytes"] is None


def test_nothing_runs(runs: Runs) -> None:
    for verb in (["status"], ["budget", "all", "1GiB"], ["pause"], ["top"], ["trace"]):
        done = runs.ebbtide(*verb)
        assert done.returncode == 4
        assert done.stderr.count("\n") == 1 and "EBBTIDE_BUDGET" in done.stderr


def test_of_two_jobs_one_is_named(runs: Runs) -> None:
    runs.serve("one", 1)
    runs.serve("two", 1)
    done = runs.ebbtide("status")
    assert done.returncode == 4 and "one (1 rank), two (1 rank)" in done.stderr
    assert runs.ebbtide("status", "--job", "two").returncode == 0


def test_a_budget_changes_and_one_too_small_does_not(runs: Runs) -> None:
    runs.serve("job", 2)
    done = runs.ebbtide("budget", "0", "12GiB")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("rank 0: budget 12.00 GiB (before: 16.00 GiB), from step ")
    done = runs.ebbtide("budget", "all", "2GiB")
    assert done.returncode == 3
    assert done.stderr.count("ebbtide budget 0 9216MiB") == 1
    assert [rank["memory"]["budget_bytes"] for rank in runs.status()] == [12 * GIB, None]


def test_pause_resume_replan_trace_snapshot(runs: Runs) -> None:
    runs.serve("job", 2)
    assert runs.ebbtide("pause").stdout.count("paused from step") == 2
    assert {rank["state"] for rank in runs.status()} == {"paused"}
    assert runs.ebbtide("resume", "--rank", "1").stdout.startswith("rank 1: resumed from step")
    assert [rank["state"] for rank in runs.status()] == ["paused", "training"]
    assert "rank 0: plans anew from step" in runs.ebbtide("replan").stdout
    assert "written after 3 steps" in runs.ebbtide("trace", "--steps", "3").stdout
    told = json.loads(runs.ebbtide("snapshot", "--json").stdout)
    assert all(rank["path"].endswith(".pickle") for rank in told["ranks"])


def test_a_node_from_afar_may_be_changed_with_its_token(runs: Runs) -> None:
    token = Path(runs.folder, "token")
    token.write_text("0123456789abcdef\n")
    token.chmod(0o600)
    told = runs.serve("job", 2, "--token-file", str(token))
    node = ["--endpoint", f"127.0.0.1:{told['port']}"]
    assert len(runs.ebbtide("status", *node).stdout.splitlines()) == 3
    assert runs.ebbtide("budget", "1", "12GiB", *node).returncode == 5
    done = runs.ebbtide("budget", "1", "12GiB", *node, "--token-file", str(token))
    assert done.returncode == 0 and done.stdout.startswith(f"{node[1]}, rank 1: budget 12.00 GiB")
    done = runs.ebbtide("status", "--endpoint", "127.0.0.1:1")
    assert done.returncode == 4 and "127.0.0.1:1" in done.stdout


def test_a_rank_that_hangs_is_said_and_the_others_are_shown(runs: Runs) -> None:
    runs.serve("job", 3, "--hung-rank", "1")
    done = runs.ebbtide("status", "--timeout", "0.5")
    assert done.returncode == 4
    assert "no answer within 0.5 s" in done.stdout.splitlines()[2]
    assert len(done.stdout.splitlines()) == 4


# --- top ------------------------------------------------------------------------------------------


def test_top_draws_sorts_and_changes_a_budget(runs: Runs) -> None:
    runs.serve("job", 5)
    with runs.terminal("top", "--interval", "0.2") as top:
        shown = top.wait_for("5 ranks")
        rows = [line.split()[0] for line in shown.splitlines()[3:8]]
        assert rows == ["0", "1", "2", "3", "4"]
        assert "█" in shown and "▁" in shown
        top.press("ss")  # by step time: rank 3 is the slow one
        shown = top.wait_for("s sort: step time")
        assert shown.splitlines()[3].split()[0] == "3"
        top.press("sss")
        top.wait_for("s sort: rank")
        top.press("\x1bOB\x1bOA")  # down and up: rank 0
        top.press("b")
        top.wait_for("budget of rank 0")
        top.press("1GiB\r")
        top.wait_for("the smallest feasible budget")
        top.press("b12GiB\r")
        top.wait_for("budget 12.00 GiB (before: 16.00 GiB)")
        top.press("?")
        top.wait_for("any key")
        top.press("x")
        top.wait_for("q quit")
        top.press("q")
        assert top.wait_for_end() == 0
    assert b"\x1b[?1049l" in top.bytes  # the screen from before is back
    assert runs.status()[0]["memory"]["budget_bytes"] == 12 * GIB


def test_top_follows_the_size_of_its_terminal(runs: Runs) -> None:
    runs.serve("job", 64)
    with runs.terminal("top") as top:
        top.wait_for("64 ranks")
        top.press("\x1b[6~")  # a page down, of this size
        top.settled(0.5)
        top.resize(150, 40)
        top.wait_for("   33 ")
        top.resize(10, 3)
        top.wait_for("   18 paus")  # the selected rank
        assert "q quit" in top.text().splitlines()[2]
        top.resize(80, 24)
        top.wait_for("64 ranks")
        top.press("q")
        assert top.wait_for_end() == 0


def test_top_shows_ranks_that_die(runs: Runs) -> None:
    runs.serve("job", 2)
    with runs.terminal("top", "--interval", "0.1") as top:
        top.wait_for("2 ranks")
        runs.processes[0].kill()
        top.wait_for("2 without an answer")
        top.press("q")
        assert top.wait_for_end() == 0


def test_top_once_needs_no_terminal(runs: Runs) -> None:
    runs.serve("job", 3)
    done = runs.ebbtide("top", "--once")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 6
    assert "\x1b" not in done.stdout and max(map(len, done.stdout.splitlines())) <= 80
    done = runs.ebbtide("top")
    assert done.returncode == 2 and "--once" in done.stderr


def test_top_in_a_terminal_that_is_not_known(runs: Runs) -> None:
    runs.serve("job", 1)
    variables = runs.variables | {"TERM": "no-such-terminal"}
    with Terminal([str(EBBTIDE), "top"], variables) as top:
        assert top.wait_for_end() == 2
        assert "no-such-terminal" in top.text()


# --- report, doctor -------------------------------------------------------------------------------


def test_a_page_of_a_real_run(tmp_path: Path, runs: Runs) -> None:
    measured = run(tiny(steps=4), {"EBBTIDE": "1"}, tmp_path).succeeded()
    path = str(tmp_path / "report-0.json")
    page = tmp_path / "run.html"
    done = runs.ebbtide("report", path, "--out", str(page), "--json")
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)["reports"][0]
    assert row["steps"] == measured.report["steps"]
    assert row["mapped_peak_bytes"] == measured.report["mapped_peak_bytes"]
    text = page.read_text()
    assert "<svg" in text and "<script" not in text and "http" not in text.replace("http-equiv", "")
    done = runs.ebbtide("report", path, "--out", "/dev/full")
    assert done.returncode == 2 and "/dev/full" in done.stderr


def test_doctor_finds_this_python(runs: Runs) -> None:
    done = runs.ebbtide("doctor", "--python", PYTHON, "--json")
    told = json.loads(done.stdout)
    findings = {finding["name"]: finding for finding in told["findings"]}
    assert findings["torch"]["verdict"] == findings["plugin"]["verdict"] == "ok", done.stdout
    assert findings["solver"]["verdict"] == "ok"
    problems = [one for one in told["findings"] if one["verdict"] == "problem"]
    assert done.returncode == (1 if problems else 0) and told["works"] == (not problems)
    assert all(one["fix"] for one in problems)


def test_doctor_says_what_to_do_without_torch(runs: Runs) -> None:
    done = runs.ebbtide("doctor", "--python", "/bin/true")
    assert done.returncode == 1
    assert "problem  torch" in done.stdout and "--python PATH" in done.stdout


# --- a real run -----------------------------------------------------------------------------------


def test_a_real_run_is_watched_and_tuned(tmp_path: Path, runs: Runs) -> None:
    """Needs the sockets of running ranks: skipped where a run opens none."""
    program: Program = tiny(steps=100000)
    variables = runs.variables | {
        "EBBTIDE": "1",
        "EBBTIDE_JOB_ID": "real",
        "EBBTIDE_AUDIT_CACHE": "off",
        "EBBTIDE_PORT": "24977",
        "OMP_NUM_THREADS": "1",
    }
    training = subprocess.Popen(
        program.command,
        env=variables,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    runs.processes.append(training)
    said = ""
    for line in training.stdout:
        said += line
        if "step 3" in line:
            break
    if "EBBTIDE_SOCKET_DIR" in said:  # as an unknown variable
        pytest.skip("runs open no sockets in this build")
    assert "step 3" in said, said
    # Nobody reads on: what the run prints goes to a pipe that would fill.
    reader = subprocess.Popen(["cat"], stdin=training.stdout, stdout=subprocess.DEVNULL)
    try:
        (status,) = runs.status()
        assert status["mode"] == "measure" and status["steps"] >= 3
        plain = status["memory"]["peak_mapped_bytes"]
        done = runs.ebbtide("budget", "0", str(plain * 2), "--json")
        assert done.returncode == 0, done.stderr
        promised = json.loads(done.stdout)["ranks"][0]["from_step"]
        while (status := runs.status()[0])["steps"] <= promised:
            assert training.poll() is None
        assert status["memory"]["budget_bytes"] == plain * 2
        done = runs.ebbtide("budget", "0", "1MiB")
        assert done.returncode == 3 and "ebbtide budget 0 " in done.stderr, done.stderr
        with runs.terminal("top", "--interval", "0.2") as top:
            top.wait_for("1 rank, 1 training")
            top.press("q")
            assert top.wait_for_end() == 0
    finally:
        training.terminate()
        reader.wait(60)
