"""The `ebbtide` program as users type it: against made-up ranks and a real terminal."""

import json
import re
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from processes import LIBRARIES, STARTED_WITH
from terminal import Terminal

pytestmark = pytest.mark.quick

EBBTIDE = LIBRARIES.parent / "bin" / "ebbtide"
SERVE = LIBRARIES.parent / "tests" / "metrics" / "metrics_serve"
GIB = 1024**3
ASKING = ("status", "top", "budget", "replan", "pause", "resume", "trace", "snapshot")
OF_FILES_TOO = ("plan", "curve")


def patient(verb: str, *more: str) -> list[str]:
    """Adds a time-out for ranks, unless the command has one: 5 s are few on a busy machine."""
    of_file = verb in OF_FILES_TOO and more[:1] and not more[0].startswith("-")
    if verb not in (*ASKING, *OF_FILES_TOO) or of_file or "--timeout" in more:
        return [verb, *more]
    computed = ["--wait", "300"] if verb == "curve" else []
    return [verb, "--timeout", "120", *computed, *more]


@dataclass
class Runs:
    """A socket folder with jobs of made-up ranks."""

    folder: str
    processes: list[subprocess.Popen] = field(default_factory=list)

    @property
    def variables(self) -> dict[str, str]:
        dropped = ("EBBTIDE", "COLUMNS", "LINES")
        kept = {k: v for k, v in STARTED_WITH.items() if not k.startswith(dropped)}
        return kept | {"EBBTIDE_SOCKET_DIR": self.folder, "TERM": "xterm", "LC_ALL": "C.UTF-8"}

    def serve(self, job: str, ranks: int, *options: str) -> dict:
        command = [SERVE, "--ranks", str(ranks), "--socket-dir", self.folder, "--job-id", job]
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        return json.loads(process.stdout.readline())

    def ebbtide(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [EBBTIDE, *patient(*arguments)],
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )

    def terminal(self, *arguments: str, columns: int = 80, lines: int = 24) -> Terminal:
        return Terminal([str(EBBTIDE), *patient(*arguments)], self.variables, columns, lines)

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


@contextmanager
def silent_rank(path: Path) -> Iterator[None]:
    """It hangs up on the first question, and never answers the others."""
    questions: list[socket.socket] = []

    def listen() -> None:
        while True:
            try:
                asked, _ = listening.accept()
            except OSError:  # the end
                return
            if not asked.recv(1):  # a client looked whether it listens
                asked.close()
                continue
            questions.append(asked)
            if len(questions) == 1:
                asked.close()

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen(100)
        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for question in questions:
                question.close()


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
    verbs = "status", "budget all 1GiB", "pause", "top", "trace", "plan", "curve", "snapshot"
    for verb in map(str.split, verbs):
        done = runs.ebbtide(*verb)
        assert done.returncode == 4
        assert done.stderr.count("\n") == 1 and "EBBTIDE_BUDGET" in done.stderr


def test_all_jobs_are_shown_and_of_two_one_is_changed(runs: Runs) -> None:
    runs.serve("one", 1)
    runs.serve("two", 2)
    leave_dead_socket(Path(runs.folder, "dead", "rank-0.sock"))
    done = runs.ebbtide("status")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    one, two = done.stdout.split("\n\n")
    assert one.startswith("job one\nrank ") and len(one.splitlines()) == 3
    assert two.startswith("job two\nrank ") and len(two.splitlines()) == 4
    named = runs.ebbtide("status", "--job", "two")
    assert named.returncode == 0 and named.stdout.startswith("rank ")

    told = json.loads(runs.ebbtide("status", "--json").stdout)
    assert list(told) == ["jobs"]
    assert [(job["job_id"], len(job["ranks"])) for job in told["jobs"]] == [("one", 1), ("two", 2)]
    named = json.loads(runs.ebbtide("status", "--json", "--job", "two").stdout)
    assert set(named) == {"job_id", "ranks"} and len(named["ranks"]) == 2

    once = runs.ebbtide("top", "--once")
    assert once.returncode == 0 and "ebbtide top  2 jobs  3 ranks, " in once.stdout
    heads = [line for line in once.stdout.splitlines() if line.startswith("job ")]
    assert [head.split("  ")[0] for head in heads] == ["job one", "job two"]

    # Both have a rank 0, one has a rank 1, none has a rank 7.
    assert runs.ebbtide("status", "--rank", "0").stdout.count("job ") == 2
    assert len(runs.ebbtide("status", "--rank", "1").stdout.splitlines()) == 2
    done = runs.ebbtide("status", "--rank", "7")
    assert done.returncode == 4
    assert done.stderr == "ebbtide: no job has a rank 7 that runs here; running: one, two\n"
    # What changes something asks which.
    done = runs.ebbtide("budget", "0", "12GiB")
    assert done.returncode == 4 and "one (1 rank), two (2 ranks)" in done.stderr


def test_the_json_of_one_job_is_at_the_top_too(runs: Runs) -> None:
    runs.serve("one", 2)
    told = json.loads(runs.ebbtide("status", "--json").stdout)
    (job,) = told.pop("jobs")
    assert job["job_id"] == told["job_id"] == "one"
    assert [rank["rank"] for rank in job["ranks"]] == [rank["rank"] for rank in told["ranks"]]
    assert set(told) == {"job_id", "ranks"}


@pytest.mark.nightly  # the one of a rank beside others stands for it
def test_a_hung_rank_holds_up_no_other_job(runs: Runs) -> None:
    """One rank of each of two jobs never answers. Both jobs are asked at once. The limit leaves the
    other ranks time on a busy machine."""
    runs.serve("one", 2, "--hung-rank", "1")
    runs.serve("two", 3, "--hung-rank", "2")
    runs.serve("well", 1)
    done = runs.ebbtide("status", "--timeout", "15")
    assert done.returncode == 4
    assert done.stdout.count("no answer within 15 s") == 2
    # Rank 0 of each job, and rank 1 of the second one.
    assert done.stdout.count("  training ") == 4


def test_a_budget_changes_and_one_too_small_does_not(runs: Runs) -> None:
    runs.serve("job", 2)
    done = runs.ebbtide("budget", "0", "12GiB")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("rank 0: budget 12.00 GiB (before: 16.00 GiB), from step ")
    done = runs.ebbtide("budget", "all", "2GiB")
    assert done.returncode == 3
    assert done.stderr.count("ebbtide budget 0 9216MiB") == 1
    assert [rank["memory"]["budget_bytes"] for rank in runs.status()] == [12 * GIB, None]


def test_what_may_end_a_run_is_forced(runs: Runs) -> None:
    runs.serve("job", 5)
    done = runs.ebbtide("budget", "4", "none")
    assert done.returncode == 5 and "more than there is" in done.stderr, done.stderr
    assert runs.status()[4]["memory"]["budget_bytes"] == 16 * GIB
    assert runs.ebbtide("budget", "4", "none", "--force").returncode == 0
    assert runs.status()[4]["memory"]["budget_bytes"] is None
    assert runs.ebbtide("pause", "--rank", "0", "--force").stdout.startswith("rank 0: paused")
    assert "--force" in runs.ebbtide("resume", "--force").stderr  # nothing is to be forced there


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


def test_plans_and_curves_of_running_ranks(runs: Runs) -> None:
    runs.serve("job", 2)
    done = runs.ebbtide("plan")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("rank 0: in force from step 3 on, planned by auto in 800.0 ms\n")
    # What the made-up rank has: 48, 40 and 8 ops.
    assert re.search(r"\n +aten::gelu +48 +30.0 ms +3.00 GiB\n", done.stdout)
    assert done.stdout.endswith("\nrank 1: no plan: no budget is in force\n")
    told = json.loads(runs.ebbtide("plan", "--json", "--rank", "0").stdout)
    assert told["job_id"] == "job" and told["ranks"][0]["plan"]["recomputed_ops"] == 96
    done = runs.ebbtide("curve", "--rank", "0")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2 + 32 + 1
    (now,) = (line for line in done.stdout.splitlines() if line.endswith("now, as measured"))
    assert now.startswith("16.00 GiB")
    assert len(json.loads(runs.ebbtide("curve", "--json").stdout)["ranks"]) == 2
    done = runs.ebbtide("plan", "7", "--budget", "80%")
    assert done.returncode == 2 and "--rank 7" in done.stderr


def token_for(runs: Runs) -> str:
    token = Path(runs.folder, "token")
    token.write_text("0123456789abcdef\n")
    token.chmod(0o600)
    return str(token)


def test_a_node_from_afar_may_be_changed_with_its_token(runs: Runs) -> None:
    token = token_for(runs)
    told = runs.serve("job", 2, "--token-file", token)
    node = ["--endpoint", f"127.0.0.1:{told['port']}"]
    assert len(runs.ebbtide("status", *node).stdout.splitlines()) == 3
    assert runs.ebbtide("budget", "1", "12GiB", *node).returncode == 5
    done = runs.ebbtide("budget", "1", "12GiB", *node, "--token-file", str(token))
    assert done.returncode == 0 and done.stdout.startswith(f"{node[1]}, rank 1: budget 12.00 GiB")
    done = runs.ebbtide("status", "--endpoint", "127.0.0.1:1")
    assert done.returncode == 4 and "127.0.0.1:1" in done.stdout


def test_all_ranks_of_a_large_node_are_changed(runs: Runs) -> None:
    """A server takes 8 changes at once."""
    token = token_for(runs)
    told = runs.serve("job", 20, "--token-file", token)
    node = ["--endpoint", f"127.0.0.1:{told['port']}", "--token-file", token]
    done = runs.ebbtide("budget", "all", "12GiB", *node)
    assert done.returncode == 0, done.stderr
    assert [rank["memory"]["budget_bytes"] for rank in runs.status()] == [12 * GIB] * 20


def test_a_node_that_is_down_keeps_nothing_from_the_others(runs: Runs) -> None:
    token = token_for(runs)
    told = runs.serve("job", 2, "--token-file", token)
    nodes = ["--endpoint", "127.0.0.1:1", "--endpoint", f"127.0.0.1:{told['port']}"]
    nodes += ["--token-file", token]
    verbs = "status", "plan", "curve", "budget all 12GiB", "trace", "snapshot", "replan", "pause"
    for verb in (*map(str.split, verbs), ["top", "--once"]):
        done = runs.ebbtide(*verb, *nodes)
        assert done.returncode == 4, verb
        assert "127.0.0.1:1: nobody listens there" in done.stdout + done.stderr, verb
        row = r"\n +1 +(training|paused) " if verb[0] in ("status", "top") else r"(?m)^.*, rank 1: "
        assert re.search(row, done.stdout), verb
        ranks = json.loads(runs.ebbtide(*verb[:3], *nodes, "--json").stdout)["ranks"]
        assert [rank["rank"] for rank in ranks] == [None, 0, 1], verb
        assert ["error" in rank for rank in ranks] == [True, False, False], verb
    assert [rank["state"] for rank in runs.status()] == ["paused", "paused"]
    done = runs.ebbtide("budget", "1", "13GiB", *nodes)
    assert done.returncode == 4 and done.stderr.count("\n") == 1
    assert runs.status()[1]["memory"]["budget_bytes"] == 13 * GIB
    done = runs.ebbtide("budget", "7", "13GiB", *nodes)
    assert re.search(r"rank 7: not found: \S+ (did not answer|named no ranks)", done.stderr)


def test_a_rank_that_hangs_is_said_and_the_others_are_shown(runs: Runs) -> None:
    runs.serve("job", 3, "--hung-rank", "1")
    done = runs.ebbtide("status", "--timeout", "15")
    assert done.returncode == 4
    assert "no answer within 15 s" in done.stdout.splitlines()[2]
    assert len(done.stdout.splitlines()) == 4


# --- top ------------------------------------------------------------------------------------------


def ranks_on(screen: str) -> list[str]:
    """The ranks of the rows of `top` with one job."""
    rows = (line.split() for line in screen.splitlines()[3:-3])
    return [row[0] for row in rows if row]


def test_top_draws_sorts_and_changes_a_budget(runs: Runs) -> None:
    runs.serve("job", 5)
    with runs.terminal("top", "--interval", "0.2") as top:
        in_order = ["0", "1", "2", "3", "4"]
        top.wait_until(
            lambda screen: (
                "5 ranks" in screen
                and ranks_on(screen) == in_order
                and "█" in screen
                and "▁" in screen
            ),
            "five ranks",
        )
        top.press("ss")  # by step time: rank 3 is the slow one
        top.wait_until(
            lambda screen: "s sort: step time" in screen and ranks_on(screen)[:1] == ["3"],
            "rank 3 above all",
        )
        top.press("sss")
        top.wait_for("s sort: rank")
        top.press("\x1bOB\x1bOA")  # down and up: rank 0
        top.press("b")
        top.wait_for("budget of rank 0")
        top.press("1GiB\r")
        top.wait_for("1GiB is too small [EB128]. Smallest budget now: ebbtide budget 0")
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
        top.wait_for("rank 18 on ")
        top.resize(150, 40)
        top.wait_for("   33 ")
        top.resize(10, 3)
        top.wait_until(  # the selected rank
            lambda screen: "   18 paus" in screen and "q quit" in screen.splitlines()[2],
            "rank 18 and what keys are for",
        )
        top.resize(80, 24)
        top.wait_for("64 ranks")
        top.press("q")
        assert top.wait_for_end() == 0


def test_top_has_a_section_for_each_job(runs: Runs) -> None:
    runs.serve("one", 1)
    with runs.terminal("top", "--interval", "0.1") as top:
        top.wait_until(lambda screen: "job one  1 rank, " in screen.splitlines()[0], "job one")
        runs.serve("two", 1)  # it comes while one looks
        sections = {
            0: "ebbtide top  2 jobs  2 ranks",
            3: "job one  1 rank, ",
            5: "job two  1 rank, ",
        }
        top.wait_until(
            lambda screen: all(
                screen.splitlines()[number].startswith(line) for number, line in sections.items()
            ),
            "a section for each job",
        )
        top.press("j")
        top.wait_for("rank 0 of two")
        top.press("b12GiB\r")
        top.wait_for("/ 12.00 GiB")
        top.press("q")
        assert top.wait_for_end() == 0
    budgets = {
        job: json.loads(runs.ebbtide("status", "--json", "--job", job).stdout)["ranks"][0]
        for job in ("one", "two")
    }
    bytes_of = {job: rank["memory"]["budget_bytes"] for job, rank in budgets.items()}
    assert bytes_of == {"one": 16 * GIB, "two": 12 * GIB}


def test_top_shows_ranks_that_die(runs: Runs) -> None:
    runs.serve("job", 2)
    with runs.terminal("top", "--interval", "0.1") as top:
        top.wait_for("2 ranks")
        runs.processes[0].kill()
        top.wait_for("2 without an answer")
        top.press("q")
        assert top.wait_for_end() == 0


def test_a_rank_that_hangs_does_not_hold_up_the_figures_of_top(runs: Runs) -> None:
    """The figures would stand still for 900 s if `top` waited for each of its answers."""
    runs.serve("job", 1)
    silent = silent_rank(Path(runs.folder, "job", "rank-1.sock"))
    with silent, runs.terminal("top", "--interval", "0.1", "--timeout", "900") as top:
        top.wait_for("1 without an answer")
        for budget in ("13", "12"):
            runs.ebbtide("budget", "0", f"{budget}GiB")
            top.wait_for(f"/ {budget}.00 GiB")
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


# --- doctor ---------------------------------------------------------------------------------------


PROBED = """#!/bin/sh
echo '{"python": "3.11.2", "executable": "here",
 "torch": {"version": "2.11.0"}, "plugin": {"built_for": "2.11", "registered": true},
 "site_packages": "/no/packages"}' | tr -d '\\n'
"""


def test_doctor_looks_at_the_python_of_this_folder_and_at_its_solver(
    runs: Runs, tmp_path: Path
) -> None:
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PROBED)
    python.chmod(0o700)
    variables = {k: v for k, v in runs.variables.items() if k != "VIRTUAL_ENV"}
    variables["EBBTIDE_SPILL_DIR"] = "/dev/shm"
    done = subprocess.run([EBBTIDE, "doctor"], env=variables, cwd=tmp_path, capture_output=True)
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "ok       Python         3.11.2 in here, of .venv here"
    (solver,) = (line for line in lines if line.split()[1] == "solver")
    assert solver.startswith("absent ") and "is not in /no/packages" in solver
    (spill,) = (line for line in lines if line.split()[1] == "spill")
    assert spill.startswith("advice ")
    # Whatever else this machine lacks: an advice is none of it.
    problems = [line for line in lines if line.startswith("problem ")]
    assert done.returncode == (1 if problems else 0)


def test_doctor_says_what_to_do_without_torch(runs: Runs) -> None:
    done = runs.ebbtide("doctor", "--python", "/bin/true")
    assert done.returncode == 1
    assert "problem  Python" in done.stdout and "--python PATH" in done.stdout
