"""Where the plugin is and where it is not; its endpoint; how it takes an interruption."""

import json
import platform
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from conftest import MIB, Baseline
from processes import (
    ROOT,
    TIMEOUT_SECONDS,
    Program,
    code,
    environment,
    free_port,
    run,
    script,
    settled,
    tiny,
    torchrun,
)
from warm_interpreter import Popen, heed_interrupts

SERIES = (
    "ebbtide_memory_budget_bytes",
    "ebbtide_memory_peak_bytes",
    "ebbtide_memory_allocated_bytes",
    "ebbtide_recomputed_ops_total",
    "ebbtide_recompute_seconds_total",
    "ebbtide_budget_violations_total",
)


def started(program: Program, variables: dict[str, str], folder: Path) -> subprocess.Popen:
    return Popen(
        program.command,
        env=environment(program, variables, folder),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heed_interrupts,
    )


def wait_for(process: subprocess.Popen, text: str) -> str:
    """Reads until a line has `text`; returns what was read. Kills a program that hangs."""
    read = ""
    hung = threading.Timer(TIMEOUT_SECONDS, process.kill)
    hung.start()
    try:
        for line in process.stdout:
            read += line
            if text in line:
                return read
    finally:
        hung.cancel()
    raise AssertionError(f"the program ended before it said {text!r}\n{read}")


def ended_by(number: signal.Signals, at: str, variables: dict[str, str], folder: Path) -> str:
    """What a training says once it is sent that signal, by which it has to end."""
    process = started(tiny(steps=5000), variables, folder)
    try:
        read = wait_for(process, at)
        process.send_signal(number)
        rest, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        process.kill()
    assert process.returncode == -number, read + rest
    return rest


# --- inert ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"EBBTIDE_LOG": "debug", "EBBTIDE_REPORT": ""},
        {"EBBTIDE": "0", "EBBTIDE_BUDGTE": "1"},
        {"EBBTIDE": "0", "EBBTIDE_REPORT": "report.json"},
        {"EBBTIDE_BUDGET": "", "EBBTIDE_REPORT": ""},
    ],
    ids=["none", "only_log", "off", "off_with_report", "empty_budget"],
)
def test_inert_unless_asked_for(variables: dict[str, str], tmp_path: Path) -> None:
    program = code(
        "import torch\n"
        "torch.ones(3, requires_grad=True).sum().backward()\n"
        "assert 'libebbtide_torch' not in open('/proc/self/maps').read()\n"
    )
    done = run(program, variables, tmp_path, out=False).succeeded()
    assert done.output == ""
    assert not done.reports


@pytest.mark.parametrize(
    "name", ["EBBTIDE_REPORT", "EBBTIDE_PERFETTO", "EBBTIDE_TEXTFILE", "EBBTIDE_TRACE_DIR"]
)
def test_a_file_to_write_measures(name: str, tiny_baseline: Baseline, tmp_path: Path) -> None:
    variables = {"EBBTIDE_REPORT": "", name: str(tmp_path / "written")}
    done = run(tiny(), variables, tmp_path).succeeded()
    assert done.results == tiny_baseline.plain.results
    assert "measuring, nothing is dropped" in done.output
    written = tmp_path / "written"
    files = list(written.iterdir()) if name == "EBBTIDE_TRACE_DIR" else [written]
    assert files and all(file.stat().st_size > 0 for file in files)


def test_package_is_free_of_torch(tmp_path: Path) -> None:
    text = "import sys, ebbtide; assert 'torch' not in sys.modules; print(ebbtide.__version__)"
    done = run(code(text), {"EBBTIDE": "1"}, tmp_path, out=False).succeeded()
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", done.output)


def test_import_alone_is_silent(tmp_path: Path) -> None:
    """Launchers and spawned data loaders import torch but train nothing."""
    done = run(code("import torch"), {"EBBTIDE": "1"}, tmp_path, out=False).succeeded()
    assert done.output == ""
    assert not done.reports


def test_launcher_is_no_rank(tmp_path: Path) -> None:
    """torchrun itself imports torch: it must take neither a rank's port nor its report."""
    program = script("examples/train_cnn.py", *"--layers 3 --width 8 --steps 2".split(), ranks=2)
    done = run(program, {"EBBTIDE": "1"}, tmp_path).succeeded()
    assert [report["rank"] for report in done.reports] == [0, 1]
    assert not done.said("warning.*port")


@pytest.mark.parametrize(
    ("variables", "launches"),
    [({}, True), ({"RANK": "0"}, True), ({"RANK": "0", "LOCAL_RANK": "0"}, False)],
    ids=["shell", "pod", "rank"],
)
def test_a_pod_may_number_its_launchers(
    tmp_path: Path, variables: dict[str, str], launches: bool
) -> None:
    """Kubeflow sets RANK in its pods, where torchrun runs; LOCAL_RANK is of torchrun's children."""
    text = (
        "import os, sys; from ebbtide._autoload import _is_launcher; "
        "print(_is_launcher(os.environ, sys.orig_argv, ['/usr/bin/torchrun', 'train.py']))"
    )
    done = run(code(text), variables, tmp_path, out=False).succeeded()
    assert done.output == f"{launches}\n"


def test_report_has_the_versions(tiny_baseline: Baseline) -> None:
    report = tiny_baseline.measured.report
    source = (ROOT / "plugin/python/ebbtide/__init__.py").read_text()
    assert f'__version__ = "{report["version"]}"' in source
    assert re.match(r"\d+\.\d+", report["torch_version"])
    assert (report["rank"], report["world_size"], report["steps"]) == (0, 1, 12)
    assert report["step_seconds"]["median"] > 0


def test_ample_budget_says_that_it_has_no_effect(tmp_path: Path, tiny_baseline: Baseline) -> None:
    done = run(tiny(), {"EBBTIDE_BUDGET": "8GiB"}, tmp_path).succeeded()
    assert done.said("nothing to do so far")
    assert done.report["recomputed_ops"] == 0
    assert done.report["spilled_bytes"] == 0
    assert done.results == tiny_baseline.plain.results


def test_a_budget_above_the_machines_memory_is_warned_of(tmp_path: Path) -> None:
    done = run(tiny(), {"EBBTIDE_BUDGET": "1000TiB"}, tmp_path).succeeded()
    assert done.said(r"warning: .*more than (the machine's memory|the control group)"), done.output


def test_budgets_for_nothing_that_is_there_are_named_once(tmp_path: Path) -> None:
    budgets = "rank0=8GiB,rank1=1GiB,stage0-3=1GiB,stage1=1GiB"
    done = run(tiny(), {"EBBTIDE_BUDGET": budgets}, tmp_path).succeeded()
    line = r"warning: EBBTIDE_BUDGET: (.*) \[EB\d+\]"
    assert sorted(re.findall(line, done.output)) == [
        "rank1=1GiB is for nothing that is there: the job has rank 0",
        "stage1=1GiB is for nothing that is there: the job has stage 0",
    ], done.output


# --- metrics --------------------------------------------------------------------------------------


def get(port: int, path: str) -> str:
    url = f"http://127.0.0.1:{port}{path}"
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
        return answer.read().decode()


def test_metrics_while_training(tmp_path: Path, tiny_budget: str) -> None:
    port = free_port()
    variables = {"EBBTIDE_BUDGET": tiny_budget, "EBBTIDE_PORT": str(port)}
    process = started(tiny(steps=2000), variables, tmp_path)
    try:
        wait_for(process, "step 8")
        text = get(port, "/metrics")
        health = get(port, "/healthz")
        with pytest.raises(urllib.error.HTTPError):
            get(port, "/nothing")
    finally:
        process.kill()
        process.communicate()
    assert health.strip() != ""
    values = dict(re.findall(r"^(ebbtide_\w+)\{[^}]*\} (\S+)$", text, re.MULTILINE))
    assert all(series in values for series in SERIES), text
    assert float(values["ebbtide_memory_budget_bytes"]) == float(tiny_budget)
    assert 0 < float(values["ebbtide_memory_peak_bytes"]) <= float(tiny_budget)
    assert float(values["ebbtide_budget_violations_total"]) == 0
    if promtool := shutil.which("promtool"):
        check = [promtool, "check", "metrics"]
        checked = subprocess.run(check, input=text, text=True, capture_output=True)
        assert checked.returncode == 0, checked.stderr


def test_busy_port_is_a_warning(tmp_path: Path, tiny_baseline: Baseline) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = run(tiny(), {"EBBTIDE": "1", "EBBTIDE_PORT": port}, tmp_path).succeeded()
    assert done.said(f"warning.*{port}")
    assert done.results == tiny_baseline.plain.results


# --- interruption ---------------------------------------------------------------------------------


@pytest.mark.skipif(platform.machine() != "x86_64", reason="socket() has another number")
def test_no_socket_is_allowed(
    tmp_path: Path, tiny_budget: str, tiny_baseline: Baseline, sockets: Path
) -> None:
    program = script("tests/e2e/without_sockets.py", *tiny().command[1:])
    variables = {"EBBTIDE_BUDGET": tiny_budget, "EBBTIDE_SOCKET_DIR": str(sockets)}
    done = run(program, variables, tmp_path).succeeded()
    assert done.results == tiny_baseline.plain.results
    assert "no endpoint" in done.output
    warnings = [line for line in done.output.splitlines() if "warning" in line]
    assert len(warnings) == 1 and warnings[0].count("Operation not permitted") == 2, done.output
    assert not list(sockets.iterdir())


def test_the_last_line_sums_the_run_up(
    tiny_budget: str, tiny_baseline: Baseline, tmp_path: Path
) -> None:
    """With a budget what it cost; without one what others would."""
    done = run(tiny(), {"EBBTIDE_BUDGET": tiny_budget}, tmp_path / "budget").succeeded()
    steps = done.report["steps"]
    assert done.said(
        rf"ended after {steps} steps of [\d.]+ m?s: peak [\d.]+ MiB of the budget's [\d.]+ MiB, "
        r"never over it; plain peak [\d.]+ MiB; recomputing takes [\d.]+ % of the time \[EB03\]$"
    ), done.output
    measured = run(
        settled("tests/e2e/tiny_train.py", "--variants", "plain", "--steps", "12"),
        {"EBBTIDE": "1"},
        tmp_path / "measured",
    ).succeeded()
    assert measured.results == tiny_baseline.plain.results
    line = re.search(
        r"ended after \d+ steps of [\d.]+ m?s: peak [\d.]+ MiB, activations [\d.]+ MiB\. "
        r"Half of the activations: EBBTIDE_BUDGET=(\d+)MiB \(.+\); "
        r"the smallest: (\d+)MiB( \(.+\))? \[EB03\]$",
        measured.output,
        re.M,
    )
    assert line is not None, measured.output
    half, smallest = int(line.group(1)), int(line.group(2))
    assert smallest <= half < measured.report["mapped_peak_bytes"] / MIB
    assert smallest == measured.report["smallest_feasible_budget_bytes"] // MIB
    # What is named trains.
    within = run(tiny(), {"EBBTIDE_BUDGET": f"{half}MiB"}, tmp_path / "half").succeeded()
    assert within.results == tiny_baseline.plain.results


def test_ranks_that_are_alike_end_in_one_line(tmp_path: Path) -> None:
    program = script("tests/e2e/tiny_train.py", "--steps", "6", ranks=2)
    done = run(program, {"EBBTIDE": "1"}, tmp_path).succeeded()
    assert len(done.reports) == 2
    assert done.output.count("ended after") == 1, done.output
    assert done.said(r"\[ebbtide rank 0\] ended after"), done.output


# Rank 1 holds four times as much, and ends first: it asks rank 0, which is still there.
UNEQUAL = """
import os, pathlib, sys, time, torch
rank = int(os.environ["RANK"])
x, weight = torch.randn(4096 << 2 * rank, 64), torch.ones(64, requires_grad=True)
optimizer = torch.optim.SGD([weight], 0.01)
for step in range(6):
    (x * weight).sin().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
other = pathlib.Path(sys.argv[1])
if rank == 0:
    while not other.exists():
        time.sleep(0.05)
    while os.path.exists("/proc/" + other.read_text()):  # until the launcher has seen its end
        time.sleep(0.05)
else:
    other.write_text(str(os.getpid()))
"""


# A rank that does not answer within 0.1 s is waited for no longer: on a busy machine there is
# nothing to tell, and it is tried again.
@pytest.mark.nightly
def test_a_rank_that_differs_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(UNEQUAL)
    for turn in range(4):
        folder = tmp_path / str(turn)
        command = (*torchrun(2), str(tmp_path / "train.py"), str(folder / "other"))
        done = run(Program(command, ranks=2), {"EBBTIDE": "1"}, folder, out=False).succeeded()
        if done.said(r"rank 1\] ended after 6 steps"):
            return
    raise AssertionError(done.output)


@pytest.mark.parametrize("at", ["step 0", "step 8"], ids=["first_steps", "under_a_plan"])
def test_a_scheduler_that_ends_the_job_leaves_a_report(
    at: str, tmp_path: Path, tiny_budget: str
) -> None:
    variables = {
        "EBBTIDE_BUDGET": tiny_budget,
        "EBBTIDE_TEXTFILE": str(tmp_path / "series.prom"),
        "EBBTIDE_PERFETTO": str(tmp_path / "trace.json"),
    }
    rest = ended_by(signal.SIGTERM, at, variables, tmp_path)
    report = json.loads((tmp_path / "report-0.json").read_text())
    assert report["ended"]
    assert "ebbtide_memory_budget_bytes" in (tmp_path / "series.prom").read_text()
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    if at == "step 8":  # of the others the first may not have ended
        assert report["steps"] >= 7 and events
        assert "ended after" in rest


def test_a_killed_run_leaves_its_last_report(tmp_path: Path, tiny_budget: str) -> None:
    process = started(tiny(steps=5000), {"EBBTIDE_BUDGET": tiny_budget}, tmp_path)
    report = tmp_path / "report-0.json"
    try:
        wait_for(process, "step 0")
        latest = time.monotonic() + TIMEOUT_SECONDS
        while not report.exists() and time.monotonic() < latest:
            time.sleep(0.1)
    finally:
        process.kill()
        process.communicate()
    told = json.loads(report.read_text())
    assert not told["ended"] and told["steps"] > 0


# By torchrun, which Slurm and Kubernetes send it to, and which ends its ranks.
@pytest.mark.nightly
def test_a_scheduler_that_ends_torchrun_leaves_a_report_of_each_rank(tmp_path: Path) -> None:
    program = script("tests/e2e/tiny_train.py", "--steps", "5000", ranks=2)
    process = started(program, {"EBBTIDE": "1"}, tmp_path)
    reports = [tmp_path / f"report-{rank}.json" for rank in (0, 1)]
    try:
        latest = time.monotonic() + TIMEOUT_SECONDS
        while not all(one.exists() for one in reports) and time.monotonic() < latest:
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        process.kill()  # its ranks end with it
    assert all(json.loads(one.read_text())["ended"] for one in reports)


# 20 s lie between two reports. The file before is open until the new one has its name: each has a
# number of its own.
@pytest.mark.nightly
def test_the_report_is_written_again_and_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    process = started(tiny(steps=500_000), {"EBBTIDE": "1"}, tmp_path)
    report = tmp_path / "report-0.json"

    def wait(seconds: float, seen: int | None) -> int:
        latest = time.monotonic() + seconds
        while time.monotonic() < latest:
            if report.exists() and report.stat().st_ino != seen:
                return report.stat().st_ino
            time.sleep(0.1)
        raise AssertionError(f"no other report in {seconds} s")

    try:
        first = wait(TIMEOUT_SECONDS, None)
        with report.open():  # keeps its number from being given again
            wait(30, first)
    finally:
        process.kill()
        process.communicate()


def test_a_handler_of_the_programs_is_the_one_that_runs(tmp_path: Path) -> None:
    text = (
        "import os, signal, torch\n"
        "x = torch.ones(4, requires_grad=True)\n"
        "for _ in range(3): (x * x).sum().backward()\n"
        "signal.signal(signal.SIGTERM, lambda *_: os._exit(7))\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    done = run(code(text), {"EBBTIDE": "1"}, tmp_path, out=False)
    assert done.status == 7, done.output


@pytest.mark.parametrize("at", ["step 0", "step 8"], ids=["first_steps", "under_a_plan"])
def test_interrupt_ends_as_ever(at: str, tmp_path: Path, tiny_budget: str) -> None:
    # Python ends with KeyboardInterrupt and then by the signal itself, as it does without us.
    rest = ended_by(signal.SIGINT, at, {"EBBTIDE_BUDGET": tiny_budget}, tmp_path)
    assert "KeyboardInterrupt" in rest
    assert "terminate called" not in rest and "Segmentation" not in rest
    report = json.loads((tmp_path / "report-0.json").read_text())
    assert report["steps"] > 0
    if at != "step 0":
        assert report["recomputed_ops"] > 0


def test_report_is_whole_after_an_exception(tmp_path: Path, tiny_budget: str) -> None:
    text = (
        "import runpy, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import tiny_train\n"
        "tiny_train.train('plain', 4)\n"
        "raise ValueError('deliberate')\n"
    )
    done = run(code(text), {"EBBTIDE_BUDGET": tiny_budget}, tmp_path, out=False)
    assert done.status == 1
    assert "ValueError: deliberate" in done.output
    assert json.dumps(done.report) and done.report["steps"] == 4


# --- the end of a step ----------------------------------------------------------------------------

PARTS = """
import torch

flat = torch.ones(2, 256)
frozen = torch.nn.Parameter(torch.empty(256), requires_grad=False)
p, fixed = torch.nn.Parameter(torch.empty(256)), torch.nn.Parameter(torch.ones(256))
frozen.data, p.data = flat[0], flat[1]
for _ in range(4):
    x = torch.randn(1024, 256) * fixed
    (x * frozen * p).sin().mean().backward()
    with torch.no_grad():
        p -= p.grad
        p.grad = None
"""


@pytest.mark.parametrize("written_before", [False, True])
def test_a_step_ends_where_one_part_of_a_buffer_is_updated(
    written_before: bool, tmp_path: Path
) -> None:
    """The other part, which is read first, is not trained."""
    text = PARTS.replace("empty(256)", "empty(256).fill_(1)") if written_before else PARTS
    done = run(code(text), {"EBBTIDE": "1"}, tmp_path, out=False).succeeded()
    assert done.report["steps"] == 4


# --- forked children ------------------------------------------------------------------------------

FORKS = """
import hashlib, os, torch

torch.manual_seed(1)
w = torch.ones(256, requires_grad=True)
x = torch.randn(1024, 256) * w  # 1 MiB, and so are the 12 sines' saved inputs
for _ in range(12):
    x = (x + 1).sin()
loss = x.mean()
del x

def backward(who):
    try:
        loss.backward()
        print(who, hashlib.sha256(w.grad.numpy().tobytes()).hexdigest(), flush=True)
    except RuntimeError as error:
        print(who, str(error).splitlines()[0], flush=True)

child = os.fork()
if child == 0:
    backward("child")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
backward("parent")
"""


def test_a_forked_child_is_refused_what_its_parent_has_spilled(tmp_path: Path) -> None:
    plain = run(code(FORKS), {}, tmp_path, out=False).succeeded()
    (child, digest), (parent, same) = (line.split(" ") for line in plain.output.splitlines())
    assert (child, parent) == ("child", "parent") and digest == same

    measured = run(code(FORKS), {"EBBTIDE": "1"}, tmp_path / "measured", out=False).succeeded()
    assert f"child {digest}" in measured.output and f"parent {digest}" in measured.output

    # 12 MiB of saved values do not fit into 6 MiB: some are in the file when the child is made.
    variables = {"EBBTIDE_BUDGET": str(6 * MIB)}
    budgeted = run(code(FORKS), variables, tmp_path / "budgeted", out=False).succeeded()
    assert budgeted.said("child ebbtide: a forked child cannot run a graph backward"), (
        budgeted.output
    )
    assert f"parent {digest}" in budgeted.output
    assert budgeted.report["spilled_bytes"] > 0
