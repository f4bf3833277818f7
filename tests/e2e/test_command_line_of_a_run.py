"""The `ebbtide` program beside a run that trains."""

import json
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import PYTHON, end, free_port, run, tiny
from rank_client import ask, send
from test_command_line import Runs
from warm_interpreter import Popen


@dataclass
class Trained:
    """A run that goes on and on: rank 0 of the job `real`, which writes its files to `folder`."""

    runs: Runs
    process: subprocess.Popen
    folder: Path
    port: int

    @property
    def socket(self) -> Path:
        return Path(self.runs.folder, "real", "rank-0.sock")

    def wait_past(self, step: int) -> dict:
        while (status := self.runs.status()[0])["steps"] <= step:
            assert self.process.poll() is None
        return status

    def wait_for_file(self, path: Path) -> bytes:
        while not path.exists():  # as a whole
            assert self.process.poll() is None
            time.sleep(0.02)
        return path.read_bytes()

    def change_budget(self, budget: str) -> dict:
        done = self.runs.ebbtide("budget", "0", budget, "--json")
        assert done.returncode == 0, done.stderr
        return self.wait_past(json.loads(done.stdout)["ranks"][0]["from_step"])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    folder = tmp_path_factory.mktemp("trained")
    made = Runs(tempfile.mkdtemp(prefix="ebt-", dir="/tmp"))
    port = free_port()
    variables = made.variables | {
        "EBBTIDE": "1",
        "EBBTIDE_JOB_ID": "real",
        "EBBTIDE_OFFLOAD": "never",
        "EBBTIDE_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(folder),
    }
    training = Popen(
        tiny(steps=1000000).command,
        env=variables,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = ""
    for line in training.stdout:
        said += line
        if "step 3" in line:
            break
    # Nobody reads on: what the run prints goes to a pipe that would fill.
    reader = subprocess.Popen(["cat"], stdin=training.stdout, stdout=subprocess.DEVNULL)
    try:
        assert "step 3" in said, said
        yield Trained(made, training, folder, port)
    finally:
        end(training)
        training.stdout.close()
        reader.wait(60)
        shutil.rmtree(made.folder, ignore_errors=True)


def test_a_real_run_is_watched_and_tuned(trained: Trained) -> None:
    runs = trained.runs
    status = trained.change_budget("none")
    assert status["mode"] == "measure" and status["steps"] >= 3
    plain = status["memory"]["peak_mapped_bytes"]
    status = trained.change_budget(str(plain * 2))
    assert status["memory"]["budget_bytes"] == plain * 2
    done = runs.ebbtide("budget", "0", "1MiB")
    assert done.returncode == 3, done.stderr
    _, _, command = done.stderr.partition(" [EB128]. Smallest budget now: ebbtide ")
    done = runs.ebbtide(*shlex.split(command))  # as it is pasted
    assert done.returncode == 0 and command.startswith("budget 0 "), command + done.stderr
    with runs.terminal("top", "--interval", "0.2") as top:
        top.wait_for("1 rank, 1 training")
        top.press("q")
        assert top.wait_for_end() == 0


# The command line and HTTP read a budget as the environment does. A value that begins with a dash
# is no option, with `--` before it or not.
def test_each_form_of_a_budget_is_the_same_from_everywhere(trained: Trained) -> None:
    runs = trained.runs
    trained.change_budget("none")

    def asked(*words: str) -> int | None:
        done = runs.ebbtide("budget", "0", "--json", "--force", *words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["ranks"][0]["budget_bytes"]

    for form, other in {
        "-50%": "- 50 %",
        "90%peak": "90 % Peak",
        "80%": "80 %",
        "1GiB": "1024 mib",
        "none": "None",
    }.items():
        status, answer = ask(trained.socket, "POST", "/v1/budget", {"budget": form, "force": True})
        assert status == 200, answer
        forms = [(form,), ("--", form), (other,)]
        assert [asked(*words) for words in forms] == [answer["budget_bytes"]] * 3, form
        assert form == "none" or answer["budget_bytes"] > 1 << 20
    assert asked("AUTO") > 1 << 20
    for wrong in ("80", "-5GiB", "60peak", "30GB"):
        done = runs.ebbtide("budget", "0", wrong)
        assert done.returncode == 2, done.stderr
        told = done.stderr.removeprefix("ebbtide: SIZE=")
        status, answer = ask(trained.socket, "POST", "/v1/budget", {"budget": wrong})
        assert status == 400 and answer["error"] == "budget=" + told.strip(), told
    trained.change_budget("none")


def test_the_plan_and_the_curve_of_a_real_run(trained: Trained) -> None:
    runs = trained.runs
    trained.change_budget("none")
    assert runs.ebbtide("plan").stdout == "rank 0: no plan: no budget is in force\n"
    plain = json.loads(runs.ebbtide("curve", "--json").stdout)["ranks"][0]["points"]
    # The last point is that of the plain peak, the first one the least without the host.
    budget = (plain[0]["budget_bytes"] + plain[-1]["budget_bytes"]) // 2
    trained.change_budget(str(budget))

    def plan() -> dict:
        told = json.loads(runs.ebbtide("plan", "--json").stdout)
        assert told["job_id"] == "real" and len(told["ranks"]) == 1
        return told["ranks"][0]

    while (found := plan()["plan"]) is None or found["active_from_step"] is None:
        assert trained.process.poll() is None
    while True:  # it may be planned anew in between
        before, done, after = plan(), runs.ebbtide("plan", "--rank", "0"), plan()
        if before["plan"] == after["plan"]:
            break
    assert done.returncode == 0 and done.stderr == ""
    facts = after["plan"]
    assert facts["recomputed_ops"] > 0 and after["timeline"]["budget_bytes"] == budget
    lines = done.stdout.splitlines()
    assert lines[0].startswith(
        f"rank 0: in force from step {facts['active_from_step']} on, planned by {facts['planner']}"
    )
    assert f"budget {budget / 1024**2:.1f} MiB" in lines[1]
    assert f"{100 * facts['overhead_ratio']:.1f}% more time" in lines[1]
    # Of a plan that was made of the first step the base is without gradients: under one MiB.
    areas = r"  at the predicted peak: .* [KM]iB parameters and other base, .* MiB kept act.*"
    assert re.fullmatch(areas, lines[2])
    freed = sum(row["freed_bytes"] for row in after["recomputed"])
    again = f"recomputes {facts['recomputed_ops']} operators ({freed / 1024**2:.1f} MiB)"
    assert freed > 1024**2 and lines[3].startswith(f"  each step: {again}")
    assert lines[4].split() == ["recomputed", "times", "a", "step", "frees"]
    shown = [(line.split()[0], int(line.split()[1])) for line in lines[5:]]
    assert shown == [(row["op"], row["ops"]) for row in after["recomputed"]]

    done = runs.ebbtide("curve")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    told = json.loads(runs.ebbtide("curve", "--json").stdout)["ranks"][0]
    assert told["state"] == "ready"
    lines = done.stdout.splitlines()
    assert lines[0] == f"rank 0: predicted for {len(told['points'])} budgets"
    assert len(lines) == 2 + len(told["points"]) + 1
    (now,) = (line for line in lines if line.endswith("now, as measured"))
    assert now.split()[:2] == [f"{budget / 1024**2:.1f}", "MiB"]
    assert runs.ebbtide("plan", "--rank", "5").returncode == 4
    assert runs.ebbtide("curve", "--endpoint", f"127.0.0.1:{trained.port}").returncode == 0


def test_a_real_run_writes_a_trace(trained: Trained) -> None:
    done = trained.runs.ebbtide("trace", "--steps", "2")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    said = re.fullmatch(
        r"rank 0: (/\S+\.json), written after 2 steps from step (\d+) on\n", done.stdout
    )
    assert said, done.stdout
    path, first = Path(said[1]), int(said[2])
    trace = json.loads(trained.wait_for_file(path))
    steps = [event["name"] for event in trace["traceEvents"] if event.get("cat") == "step"]
    assert steps == [f"step {first}", f"step {first + 1}"]
    assert {event["pid"] for event in trace["traceEvents"]} == {0}
    assert path.parent == trained.folder and path.stat().st_mode & 0o777 == 0o600
    # The port of a machine reads alone, without a token; there is no other rank.
    done = trained.runs.ebbtide("trace", "--endpoint", f"127.0.0.1:{trained.port}")
    assert done.returncode == 5 and "read-only" in done.stderr
    assert done.stderr.endswith(" [EB107]\n"), done.stderr
    assert trained.runs.ebbtide("trace", "--rank", "1").returncode == 4


VIEWED = """
import json, pickle, sys
from torch.cuda import _memory_viz
snapshot = pickle.load(open(sys.argv[1], "rb"))
print(_memory_viz.segsum(snapshot), _memory_viz.trace(snapshot), sep="\\n")
page = _memory_viz.trace_plot(snapshot)
assert "<script" in page
print(json.dumps([sorted(snapshot), len(snapshot["segments"]), len(snapshot["device_traces"][0])]))
"""


def test_a_real_run_writes_a_snapshot(trained: Trained) -> None:
    done = trained.runs.ebbtide("snapshot")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    said = re.fullmatch(r"rank 0: (/\S+\.pickle)\n", done.stdout)
    assert said, done.stdout
    path = Path(said[1])
    trained.wait_for_file(path)
    assert path.parent == trained.folder and path.stat().st_mode & 0o777 == 0o600
    viewed = subprocess.run([PYTHON, "-c", VIEWED, path], capture_output=True, text=True)
    assert viewed.returncode == 0, viewed.stderr
    keys, segments, moves = json.loads(viewed.stdout.splitlines()[-1])
    assert {"segments", "device_traces"} <= set(keys)
    # A step allocates and frees what three blocks save.
    assert segments > 0 and moves > 3 * 3 * 2
    assert trained.runs.ebbtide("snapshot", "--rank", "1").returncode == 4


def test_a_real_rank_answers_for_itself_alone(trained: Trained) -> None:
    """And refuses what could be read in two ways."""
    changes = {"/v1/trace": {"steps": 1}, "/v1/snapshot": {}, "/v1/replan": {}}
    changes |= {"/v1/pause": {"paused": True}, "/v1/budget": {"budget": "none"}}
    for path, body in changes.items():
        status, told = ask(trained.socket, "POST", f"{path}?rank=1", body)
        assert status == 404 and "this is rank 0 alone" in told["error"], path
        assert told["code"] == "EB111", path
    for path in ("/metrics", "/v1/status", "/v1/plan", "/v1/curve", "/v1/config"):
        assert ask(trained.socket, "GET", f"{path}?rank=1")[0] == 404, path
    assert ask(trained.socket, "GET", "/v1/config?rank=0")[0] == 200
    twice = '{"budget": "none", "budget": "1GiB"}'
    assert send(trained.socket, "POST", "/v1/budget", twice) == (
        400,
        {"code": "EB104", "error": 'the body has "budget" twice'},
    )
    status, told = send(trained.socket, "POST", "/v1/pause", '{"paused": false}\0')
    assert status == 400 and "NUL" in told["error"]
    assert send(trained.socket, "POST", "/v1/budget", '{"budget": "1GiB\\u0000"}')[0] == 400


# --- after it -------------------------------------------------------------------------------------


def test_a_page_of_a_real_run(tmp_path: Path) -> None:
    measured = run(tiny(steps=4), {"EBBTIDE": "1"}, tmp_path).succeeded()
    path = str(tmp_path / "report-0.json")
    page = tmp_path / "run.html"
    runs = Runs(str(tmp_path))
    done = runs.ebbtide("report", path, "--out", str(page), "--json")
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)["reports"][0]
    assert row["steps"] == measured.report["steps"]
    assert row["mapped_peak_bytes"] == measured.report["mapped_peak_bytes"]
    seconds = measured.report["step_seconds"]
    assert row["total_step_seconds"] == seconds["total"]
    # Beside the first step there is one that took the median or more.
    assert seconds["total"] >= seconds["first"] + seconds["median"]
    text = page.read_text()
    assert "<svg" in text and "<script" not in text and "http" not in text.replace("http-equiv", "")
    done = runs.ebbtide("report", path, "--out", "/dev/full")
    assert done.returncode == 2 and "/dev/full" in done.stderr


def test_doctor_finds_this_python(tmp_path: Path) -> None:
    done = Runs(str(tmp_path)).ebbtide("doctor", "--python", PYTHON, "--json")
    told = json.loads(done.stdout)
    findings = {finding["name"]: finding for finding in told["findings"]}
    assert findings["torch"]["verdict"] == findings["plugin"]["verdict"] == "ok", done.stdout
    assert findings["Python"]["what"].endswith(f" in {PYTHON}, named by --python")
    assert findings["solver"]["verdict"] == "ok"
    problems = [one for one in told["findings"] if one["verdict"] == "problem"]
    assert done.returncode == (1 if problems else 0) and told["works"] == (not problems)
    assert all(one["fix"] for one in problems)
