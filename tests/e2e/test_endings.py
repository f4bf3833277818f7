"""How a run ends: its last line, and the report that signals and exceptions leave."""

import json
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import MIB, Baseline
from processes import (
    LIBRARIES,
    TIMEOUT_SECONDS,
    Program,
    code,
    run,
    script,
    settled,
    started,
    tiny,
    torchrun,
    wait_for,
)

# --- the last line --------------------------------------------------------------------------------


def test_the_last_line_sums_the_run_up(
    tiny_budget: str, tiny_baseline: Baseline, tmp_path: Path
) -> None:
    """With a budget what it cost; without one what others would."""
    done = run(tiny(), {"EBBTIDE_BUDGET": tiny_budget}, tmp_path / "budget").succeeded()
    steps = done.report["steps"]
    bytes_spilled = done.report["spilled_bytes"]  # by steps before the plan; none on a slow disk
    spilled = f"; spilling wrote {bytes_spilled / MIB:.1f} MiB to disk" if bytes_spilled else ""
    assert done.said(
        rf"ended after {steps} steps of [\d.]+ m?s: peak [\d.]+ MiB of the budget's [\d.]+ MiB, "
        r"never over it; plain peak [\d.]+ MiB; recomputing takes [\d.]+ % of the time"
        rf"(; copies to disk and back take [\d.]+ %)?{spilled} \[EB03\]$"
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
        r"the smallest: (\d+)MiB \(.+\) \[EB03\]$",
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


# The ranks share nothing. One ends first; the other one waits for its end. It waits in the step
# `waits_at`, once one block of three has run. With 6 it waits after its last step.
ALIKE = """
import os, pathlib, sys, time
sys.path.insert(0, sys.argv[1])
import tiny_train
ends_first, waits_at = sys.argv[2] == os.environ["RANK"], int(sys.argv[3])
waiting, ending = pathlib.Path("waiting"), pathlib.Path("ending")

def wait_for_the_other():
    waiting.touch()
    while not ending.exists() or os.path.exists("/proc/" + ending.read_text()):
        time.sleep(0.05)

def step(net, x, y, index):
    if index != waits_at or ends_first:
        return tiny_train.plain(net, x, y, index)
    with net.blocks[0].register_forward_hook(lambda *_: wait_for_the_other()):
        return tiny_train.plain(net, x, y, index)

tiny_train.VARIANTS["plain"] = step
tiny_train.train("plain", 6)
if ends_first:
    while not waiting.exists():
        time.sleep(0.05)
    ending.write_text(str(os.getpid()))
elif waits_at == 6:
    wait_for_the_other()
"""


# The first one to end asks the other one for its peak. That is lower so far in a first step.
@pytest.mark.parametrize(
    ("first", "waits_at"),
    [
        (1, 0),
        (0, 6),
        pytest.param(0, 0, marks=pytest.mark.nightly),
        pytest.param(1, 6, marks=pytest.mark.nightly),
    ],
)
def test_ranks_that_are_alike_end_in_one_line(first: int, waits_at: int, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ALIKE)
    here = str(Path(__file__).parent)
    program = (str(tmp_path / "train.py"), here, str(first), str(waits_at))
    command = (*torchrun(2), *program)
    done = run(Program(command, ranks=2), {"EBBTIDE": "1"}, tmp_path, out=False).succeeded()
    assert [report["steps"] for report in done.reports] == [6, 6]
    assert done.output.count("ended after") == 1, done.output
    assert done.said(r"\[ebbtide rank 0\] ended after"), done.output
    assert "rank 1's peak" not in done.output, done.output


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


# --- interruption ---------------------------------------------------------------------------------

# A run has 5 s to leave its files. On a busy machine it may hardly run in that time.
PATIENT = {"LD_PRELOAD": str(LIBRARIES / "libebbtide_patient_exit.so")}


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


@pytest.mark.parametrize("at", ["step 0", "step 8"], ids=["first_steps", "under_a_plan"])
def test_a_scheduler_that_ends_the_job_leaves_a_report(
    at: str, tmp_path: Path, tiny_budget: str
) -> None:
    variables = PATIENT | {
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


def report_of_killed(
    program: Program, variables: dict[str, str], file: Path, tells_enough: Callable[[dict], bool]
) -> dict:
    """The last report of a run that is killed once it has left one that tells enough."""
    process = started(program, variables, file.parent)
    told: dict = {}
    try:
        latest = time.monotonic() + TIMEOUT_SECONDS
        while not (told and tells_enough(told)) and time.monotonic() < latest:
            time.sleep(0.1)
            if file.exists():
                told = json.loads(file.read_text())
    finally:
        process.kill()
        process.communicate()
    return told


def test_a_killed_run_leaves_its_last_report(tmp_path: Path, tiny_budget: str) -> None:
    file, series = tmp_path / "report-0.json", tmp_path / "series.prom"
    variables = {"EBBTIDE_BUDGET": tiny_budget, "EBBTIDE_TEXTFILE": str(series)}
    # Without a launcher the rank, which may be part of a file's name, is known after 5 s.
    told = report_of_killed(
        tiny(steps=5000), variables, file, lambda told: told["steps"] > 0 and series.exists()
    )
    assert not told["ended"] and told["steps"] > 0
    assert "ebbtide_memory_budget_bytes" in series.read_text()


ENDLESS_FIRST_STEP = """
import time, torch

net = torch.nn.Linear(1024, 1024)
kept = net(torch.ones(1024, 1024))
while True:
    time.sleep(1)
"""


# The kernel may end a run for its memory: the report has to say how much it took.
def test_a_run_that_is_killed_in_its_first_step_leaves_a_report(tmp_path: Path) -> None:
    file = tmp_path / "report-0.json"
    made = 3 * 4 * MIB  # weights, batch and result
    told = report_of_killed(
        code(ENDLESS_FIRST_STEP), {"EBBTIDE": "1"}, file, lambda told: told["peak_bytes"] >= made
    )
    assert (told["ended"], told["steps"]) == (False, 0)
    assert told["peak_bytes"] >= made


# By torchrun, which Slurm and Kubernetes send it to, and which ends its ranks.
@pytest.mark.nightly
def test_a_scheduler_that_ends_torchrun_leaves_a_report_of_each_rank(tmp_path: Path) -> None:
    program = script("tests/e2e/tiny_train.py", "--steps", "5000", ranks=2)
    process = started(program, PATIENT | {"EBBTIDE": "1"}, tmp_path)
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


# 10 s lie between two reports. The file before is open until the new one has its name: each has a
# number of its own.
@pytest.mark.nightly
def test_the_report_is_written_again_and_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    process = started(tiny(steps=500_000), {"EBBTIDE": "1"}, tmp_path)
    report = tmp_path / "report-0.json"

    def wait(seen: int | None) -> int:
        latest = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < latest:
            if report.exists() and report.stat().st_ino != seen:
                return report.stat().st_ino
            time.sleep(0.1)
        raise AssertionError(f"no other report in {TIMEOUT_SECONDS} s")

    try:
        first = wait(None)
        with report.open():  # keeps its number from being given again
            wait(first)
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
