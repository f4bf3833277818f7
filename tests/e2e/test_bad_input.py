"""Mistakes end the program at start, with status 2 and one line that names the variable."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import MIB, Baseline
from processes import LIBRARIES, ROOT, Finished, Program, code, run, tiny
from small_disk import small_disk

IMPORT = code("import torch; print('training')")


def first_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith("ebbtide: ")]
    assert len(lines) == 1, output
    return lines[0]


def refused(variables: dict[str, str], folder: Path, program: Program = IMPORT) -> str:
    done = run(program, variables, folder, out=False)
    assert done.status == 2, done.output
    assert "training" not in done.output and "Traceback" not in done.output
    return first_line(done.output)


def test_an_ambiguous_unit_names_the_spelling_to_write(tmp_path: Path) -> None:
    message = refused({"EBBTIDE_BUDGET": "30GB"}, tmp_path)
    assert "EBBTIDE_BUDGET=30GB: write 30GiB (30 × 2^30 bytes)" in message


@pytest.mark.parametrize("budget", ["abc", "-1", "0"])
def test_misspelt_budget(budget: str, tmp_path: Path) -> None:
    message = refused({"EBBTIDE_BUDGET": budget}, tmp_path)
    assert f"EBBTIDE_BUDGET={budget}" in message
    assert "30GiB" in message  # an example of what is accepted


@pytest.mark.parametrize(
    ("unknown", "nearest"),
    [
        ("EBBTIDE_BUDGTE", "EBBTIDE_BUDGET"),
        ("EBBTIDE_SPILLDIR", "EBBTIDE_SPILL_DIR"),
    ],
)
def test_unknown_variable_names_the_nearest(unknown: str, nearest: str, tmp_path: Path) -> None:
    message = refused({unknown: "1GiB"}, tmp_path)  # the one variable that switches it on, misspelt
    assert unknown in message and nearest in message


def test_a_variable_that_is_gone_ends_no_run(tmp_path: Path, short_plain: Finished) -> None:
    folder = tmp_path / "audits"
    variables = {"EBBTIDE": "1", "EBBTIDE_AUDIT_CACHE": str(folder)}
    done = run(SHORT, variables, tmp_path).succeeded()
    (line,) = [line for line in done.output.splitlines() if "EBBTIDE_AUDIT_CACHE" in line]
    said = "has no effect any more (each process compares its replays itself); it can be unset"
    assert line == f"[ebbtide rank 0] warning: EBBTIDE_AUDIT_CACHE {said} [EB84]"
    assert not folder.exists()
    assert done.results == short_plain.results


def test_a_switch_that_is_neither_on_nor_off(tmp_path: Path) -> None:
    assert "EBBTIDE=true is not one of: 0, 1" in refused({"EBBTIDE": "true"}, tmp_path)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("EBBTIDE_REPORT", "/nonexistent/folder/run.json"),
        ("EBBTIDE_SPILL_DIR", "/dev/null"),
        ("EBBTIDE_SPILL_DIR", "/proc"),
        ("EBBTIDE_PORT", "70000"),
        ("EBBTIDE_PORT", "+80"),
        ("EBBTIDE_PLANNER", "no-such-planner"),
    ],
)
def test_unusable_value_names_the_variable(variable: str, value: str, tmp_path: Path) -> None:
    assert variable in refused({"EBBTIDE_BUDGET": "1GiB", variable: value}, tmp_path)


def test_the_same_in_a_cpp_program(tmp_path: Path) -> None:
    program = Program((str(LIBRARIES.parent / "bin" / "train_cpp"),), preload=True)
    assert "EBBTIDE_BUDGET=abc" in refused({"EBBTIDE_BUDGET": "abc"}, tmp_path, program)


# --- budgets that are too small -------------------------------------------------------------------


SHORT = tiny(steps=6)


@pytest.fixture(scope="module")
def short_plain(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run(SHORT, {}, tmp_path_factory.mktemp("short")).succeeded()


REFUSED = "it is too small for this program"


def check_refused(done: Finished) -> None:
    """The refusal is said once, at the third begin of a step after the first at the latest; then
    nothing of ours follows it, and nothing was to be planned, spilled or switched off before."""
    lines = done.output.splitlines()
    at = [number for number, line in enumerate(lines) if REFUSED in line]
    assert len(at) == 1, done.output
    # As batch-size finders look for it.
    error = "ebbtide: out of memory. DefaultCPUAllocator: can't allocate memory within the budget"
    assert lines[at[0]].startswith(f"torch.OutOfMemoryError: {error} of "), done.output
    ours = [number for number, line in enumerate(lines) if line.startswith("[ebbtide rank")]
    assert len(ours) == 2 and max(ours) < at[0], done.output  # the first line of a run, and:
    assert "needed at least" in lines[ours[1]] and "needed at least" not in lines[at[0]]
    for words in ("plan by", "spilled each step", "pass-through", "frame #", "each step writes"):
        assert words not in done.output, done.output
    report = done.report
    assert not report["pass_through"] and report["plan"] is None
    assert report["budget_violations"] > 0 and 1 <= report["steps"] <= 3, report["steps"]
    named = -(-report["smallest_feasible_budget_bytes"] // MIB)
    assert lines[at[0] + 1] == f"Smallest budget: EBBTIDE_BUDGET={named}MiB.", done.output


def stopped_with_advice(budget: int, folder: Path) -> int:
    """The smallest feasible budget that the message and the report name, in bytes."""
    done = run(SHORT, {"EBBTIDE_BUDGET": f"{budget / 1024}KiB"}, folder)
    assert done.status == 1, done.output  # torch.OutOfMemoryError
    assert not done.results
    check_refused(done)
    assert done.report["smallest_feasible_budget_bytes"] > budget
    return done.report["smallest_feasible_budget_bytes"]


def trains_as_advised(budget: int, folder: Path, plain: Finished) -> None:
    done = run(SHORT, {"EBBTIDE_BUDGET": str(budget)}, folder).succeeded()
    assert done.results == plain.results
    assert done.report["budget_violations"] == 0


def test_budget_under_the_size_of_the_parameters(tmp_path: Path, short_plain: Finished) -> None:
    # 3 blocks of 128 x 128 weights in float32 are 192 KiB: more than the budget.
    advised = stopped_with_advice(128 * 1024, tmp_path / "stopped")
    trains_as_advised(advised, tmp_path / "advised", short_plain)


# Over 20 s where spilling is slow: the budget that is named leaves no room, all goes to disk.
def test_infeasible_budget_advises_one_that_is_enough(
    tmp_path: Path, tiny_baseline: Baseline, short_plain: Finished
) -> None:
    # One operation needs its input and its output, 2 MiB each: 1 MiB over the base cannot do.
    base = tiny_baseline.measured.report["base_bytes"]
    advised = stopped_with_advice(base + MIB, tmp_path / "stopped")
    trains_as_advised(advised, tmp_path / "advised", short_plain)


IN_TWO_THREADS = code("""
import threading
import torch

def forward(weight, rows):
    x = torch.randn(rows, 256)
    for _ in range(8):
        x = (x + weight).sin()
    return x.mean()

def train(rows, steps, meanwhile=lambda: None):
    weight = torch.ones(256, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.01)
    for step in range(steps):
        loss = forward(weight, rows)
        if step == 0:
            meanwhile()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

def train_small_ones():
    thread = threading.Thread(target=train, args=(64, 3))
    thread.start()
    thread.join()

train(1024, 6, train_small_ones)
print("trained")
""")


def test_infeasible_where_another_thread_ends_the_first_step(tmp_path: Path) -> None:
    # An activation of the main thread is 1 MiB; that of the other one a 16th of it.
    done = run(IN_TWO_THREADS, {"EBBTIDE_BUDGET": "2MiB"}, tmp_path, out=False)
    assert done.status == 1 and "trained" not in done.output, done.output
    assert done.said("ebbtide.*budget.*too small"), done.output
    assert done.report["smallest_feasible_budget_bytes"] > 2 * MIB


def test_best_effort_trains_on(
    tmp_path: Path, tiny_baseline: Baseline, short_plain: Finished
) -> None:
    base = tiny_baseline.measured.report["base_bytes"]
    variables = {"EBBTIDE_BUDGET": str(base + MIB), "EBBTIDE_ON_INFEASIBLE": "best-effort"}
    done = run(SHORT, variables, tmp_path).succeeded(over_budget=True)
    assert done.results == short_plain.results
    assert done.report["budget_violations"] > 0  # and says so


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """64 KiB, for some 10 MiB that the first step must spill."""
    with small_disk(tmp_path / "disk", "64k") as disk:
        yield disk


@pytest.mark.parametrize("on_infeasible", ["stop", "best-effort"])
def test_full_spill_disk(
    on_infeasible: str, full_disk: Path, tmp_path: Path, tiny_baseline: Baseline
) -> None:
    """A plan of replays alone keeps the budget: it is not refused."""
    variables = {
        "EBBTIDE_BUDGET": str(tiny_baseline.budget(0.5)),
        "EBBTIDE_ON_INFEASIBLE": on_infeasible,
        "EBBTIDE_SPILL_DIR": str(full_disk),
    }
    done = run(tiny(), variables, tmp_path / "run").succeeded(over_budget=True)
    said = re.findall(
        rf"cannot write to the spill file in {full_disk}: No space left on device \(errno 28\)",
        done.output,
    )
    assert len(said) == 1, done.output
    assert not done.said("too small"), done.output
    assert done.report["spilled_bytes"] == done.report["offloaded_bytes"] == 0
    assert done.report["budget_violations"] > 0  # until the plan
    assert done.report["followed_steps"] > 0, done.output
    assert done.results == tiny_baseline.plain.results


FILLS = """
import json, resource, sys
import torch
from torch import nn
import planner

class Slow(nn.Module):
    def forward(self, x):
        return torch.special.erfcx(x)

torch.manual_seed(0)
torch.set_num_threads(1)
if sys.argv[2:] == ["slow"]:
    net = nn.Sequential(nn.Linear(128, 128), *[Slow() for _ in range(26)], nn.Linear(128, 128))
else:
    net = nn.Sequential(
        *[m for _ in range(8) for m in (nn.Linear(128, 128), nn.GELU(), nn.LayerNorm(128))]
    )
optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
losses = []
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for step in range(20):
    if step == int(sys.argv[1]):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    loss = net(torch.randn(2048, 128)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    planner.settle()
    losses.append(loss.item())
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
print(json.dumps(losses))
"""


def filling(when: int, variables: dict[str, str], folder: Path, net: str = "") -> Finished:
    program = Program((sys.executable, "-c", FILLS, str(when), net))
    paths = {"PYTHONPATH": str(ROOT / "tests" / "e2e")}
    return run(program, {**variables, **paths}, folder, out=False)


def losses_of(done: Finished) -> str:
    assert done.status == 0, done.output
    (line,) = re.findall(r"^\[[\d.,eE+ -]+\]$", done.output, re.M)  # ours may stand last
    return str(line)


# From the start; before there is a plan; while one is in use that writes in each step.
@pytest.mark.parametrize(("step", "offload"), [(0, "never"), (1, "never"), (8, "auto")])
def test_the_spill_disk_is_full_from_a_step_on(step: int, offload: str, tmp_path: Path) -> None:
    """A file-size limit of 0 stands for it. A step needs 30.7 MiB plain; a plan of replays alone
    keeps 14 MiB, so that the run is not refused. Whether a plan writes is the machine's to decide,
    but not where the disk is fast and each op takes some times as long as its result's copy: the
    slow net has 26 such results of 1 MiB, and needs 34 MiB plain."""
    net = "slow" if offload == "auto" else ""
    plain = losses_of(filling(99, {}, tmp_path / "plain", net))
    variables = {"EBBTIDE_BUDGET": "14MiB", "EBBTIDE_OFFLOAD": offload, "EBBTIDE_LOG": "debug"}
    if offload == "auto":
        variables["LD_PRELOAD"] = str(LIBRARIES / "libebbtide_fast_disk.so")
    done = filling(step, variables, tmp_path / "full", net)
    assert losses_of(done) == plain
    failed = r"warning: cannot write to the spill file in .+: File too large \(errno 27\)"
    assert len(re.findall(failed, done.output)) == 1, done.output
    assert not done.said("too small"), done.output
    assert (done.report["offloaded_bytes"] > 0) == (offload == "auto"), done.output
    assert step > 0 or done.report["spilled_bytes"] == 0, done.output
    assert done.report["plan"]["offloaded_bytes"] == 0, done.output
    assert re.findall(r"debug: step \d+: .* plan (\w+)", done.output)[-1] == "followed", done.output


def test_a_full_spill_disk_names_what_a_plan_of_replays_takes(tmp_path: Path) -> None:
    """No plan fits 5 MiB: weights, Adam's state and the batch are 2.6 MiB, and LayerNorm's backward
    pass alone has three tensors of 1 MiB. Steps without a plan take the 30.7 MiB of plain ones;
    plans of replays alone do with 14, as above. So 20 allow for a search that finds a worse one."""
    never = {"EBBTIDE_OFFLOAD": "never", "EBBTIDE_LOG": "debug"}
    refused = filling(0, {**never, "EBBTIDE_BUDGET": "5MiB"}, tmp_path / "refused")
    assert refused.status == 1 and refused.said("too small for this program"), refused.output
    (named,) = re.findall(r"Smallest budget: EBBTIDE_BUDGET=(\d+)MiB", refused.output)
    assert int(named) < 20, refused.output
    assert not refused.said("writes values to disk"), refused.output
    done = filling(0, {**never, "EBBTIDE_BUDGET": f"{named}MiB"}, tmp_path / "named")
    assert losses_of(done) == losses_of(filling(99, {}, tmp_path / "plain"))
    assert re.findall(r"debug: step \d+: .* plan (\w+)", done.output)[-1] == "followed", done.output


# 16 inputs are kept for the backward pass. NumPy writes them: no replay gives them back.
OF_DATA = """
import numpy, torch
import planner

def data(rows):
    x = torch.empty(rows, 256)
    x.numpy()[:] = numbers.standard_normal((rows, 256), numpy.float32)
    return x

torch.manual_seed(0)
torch.set_num_threads(1)
numbers = numpy.random.default_rng(0)
weights = [torch.randn(256).requires_grad_() for _ in range(16)]
optimizer = torch.optim.SGD(weights, 1e-3)
for step in range(20):
    rows = 512 if step < 8 else 1536
    loss = sum((data(rows) * weight).mean() for weight in weights)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    planner.settle()
    print("step", step, loss.item().hex(), flush=True)
"""
STEP = re.compile(r"^step \d+ .*$", re.M)  # a line of it


def of_data(spill_folder: Path, folder: Path) -> Finished:
    variables = {
        "EBBTIDE_BUDGET": "8MiB",
        "EBBTIDE_OFFLOAD": "auto",
        "EBBTIDE_PLANNER": "greedy",  # no op can be replayed: a search would find nothing better
        "EBBTIDE_SPILL_DIR": str(spill_folder),
        "PYTHONPATH": str(ROOT / "tests" / "e2e"),
    }
    return run(code(OF_DATA), variables, folder, out=False)


def test_a_spill_disk_that_fills_in_mid_run_is_named_by_the_error(tmp_path: Path) -> None:
    """The 16 inputs have 8 MiB in the first 8 steps, then 24. Of those 16 or more must be on disk.
    The disk has 26 MiB: trials of its speed take 16, and the first inputs 8 at most. Where there is
    room, the same budget trains."""
    with small_disk(tmp_path / "disk", "26m") as disk:
        done = of_data(disk, tmp_path / "refused")
    cause = f"cannot write to the spill file in {disk}: No space left on device (errno 28)"
    before, warned, after = done.output.partition(f"warning: {cause}")
    assert warned and done.report["offloaded_bytes"] > 0, done.output  # a plan wrote at first
    _, raised, error = after.partition("torch.OutOfMemoryError: ")
    assert done.status == 1 and raised and "too small for this program" in error, done.output
    assert f" Note: {cause} (EBBTIDE_SPILL_DIR chooses another folder)." in error, done.output

    (tmp_path / "roomy").mkdir()
    roomy = of_data(tmp_path / "roomy", tmp_path / "trains").succeeded()
    steps = STEP.findall(roomy.output)
    assert len(steps) == roomy.report["steps"] == 20, roomy.output
    assert STEP.findall(before) == steps[:8], done.output
    more = STEP.findall(after)  # over the budget, until no plan is found to hold it
    assert more == steps[8 : 8 + len(more)] and len(more) < 12, done.output


def test_report_to_a_full_device_is_a_warning(tmp_path: Path, short_plain: Finished) -> None:
    done = run(SHORT, {"EBBTIDE": "1", "EBBTIDE_REPORT": "/dev/full"}, tmp_path).succeeded()
    assert done.said("warning.*report.*/dev/full")
    assert done.results == short_plain.results


# --- the wrong torch, two plugins -----------------------------------------------------------------


def test_other_torch_minor_goes_on_without(tmp_path: Path, built_for: str) -> None:
    done = run(
        code(
            "import os, sys\n"
            "os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\n"
            "import torch\n"
            "torch.__version__ = '2.99.1'\n"
            "from ebbtide._autoload import load\n"
            "load()\n"
            "assert 'libebbtide_torch' not in open('/proc/self/maps').read()\n"
            "print('training')\n"
        ),
        {"EBBTIDE_BUDGET": "1GiB"},
        tmp_path,
        out=False,
    ).succeeded()
    message = first_line(done.output)
    assert message.startswith("ebbtide: not started, training goes on without it: "), message
    assert f"built for torch {built_for}, but this process has torch 2.99.1" in message
    assert message.endswith("[EB68]"), message
    assert "training" in done.output


def test_a_damaged_installation_goes_on_without(tmp_path: Path) -> None:
    program = code(
        "import os, pathlib\n"
        "os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\n"
        "import torch\n"
        "from ebbtide import _autoload\n"
        "_autoload._start_if_asked = lambda: _autoload._open(pathlib.Path('/nonexistent'))\n"
        "_autoload.load()\n"
        "print('training')\n"
    )
    done = run(program, {"EBBTIDE_BUDGET": "1GiB"}, tmp_path, out=False).succeeded()
    message = first_line(done.output)
    assert "libebbtide.so is missing" in message and message.endswith("[EB70]"), message
    assert "training" in done.output


def test_two_plugins(tmp_path: Path, tiny_budget: str, tiny_baseline: Baseline) -> None:
    """A second copy of the libraries: refused or without effect, and the numbers stay."""
    copies = tmp_path / "copies"
    copies.mkdir()
    for name in ("libebbtide.so", "libebbtide_torch.so"):
        shutil.copy(LIBRARIES / name, copies)
    program = code(
        "import ctypes, runpy, sys, torch\n"
        f"second = ctypes.CDLL({str(copies / 'libebbtide.so')!r})\n"
        "second.ebbtide_start.restype = ctypes.c_char_p\n"
        "print('second:', second.ebbtide_start())\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "sys.argv[0] = 'tiny_train.py'\n"
        "runpy.run_module('tiny_train', run_name='__main__')\n"
    )
    done = run(program, {"EBBTIDE_BUDGET": tiny_budget}, tmp_path / "run").succeeded()
    assert done.output.count("(torch ") == 1, done.output  # one banner: the second is not active
    assert first_line(done.output).endswith("stays out [EB71]"), done.output
    assert done.results == tiny_baseline.plain.results
    assert done.report["budget_violations"] == 0


def test_the_front_library_is_free_of_torch(built_for: str) -> None:
    # Loading it into a process without torch is what the version check relies on.
    program = (
        "import ctypes, pathlib\n"
        f"library = ctypes.CDLL({str(LIBRARIES / 'libebbtide.so')!r})\n"
        "assert library.ebbtide_start is not None\n"
        "maps = pathlib.Path('/proc/self/maps').read_text()\n"
        "assert 'libebbtide.so' in maps and 'libtorch' not in maps\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
