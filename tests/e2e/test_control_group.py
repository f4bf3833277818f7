"""A control group of memory, as a container has: its limit counts, not the machine's."""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import MIB
from processes import Finished, Program, code, run, tiny

GROUPS = Path("/sys/fs/cgroup")
LIMITS = {"memory": "memory.limit_in_bytes", "": "memory.max"}  # v1's hierarchy, v2's


@pytest.fixture
def group() -> Iterator[Path]:
    """A new one without a limit. Only an administrator may make one, and not everywhere."""
    for hierarchy, limit in LIMITS.items():
        made = GROUPS / hierarchy / f"ebbtide-test-{os.getpid()}"
        with contextlib.suppress(OSError):
            made.mkdir()
            if (made / limit).exists():
                break
            made.rmdir()
    else:
        pytest.skip("no control group of memory can be made here")
    yield made
    made.rmdir()


def run_within(
    group: Path, limit_bytes: int, program: Program, variables: dict[str, str], folder: Path
) -> Finished:
    limit = next(group / name for name in LIMITS.values() if (group / name).exists())
    limit.write_text(str(limit_bytes))
    enter = 'echo $$ > "$0" && exec "$@"'
    command = ("sh", "-c", enter, str(group / "cgroup.procs"), *program.command)
    return run(Program(command), variables, folder)


# The files of the second version's groups, in the place of the machine's, for one process alone.
# They stay as they are written: nothing is used there, and nobody is ended.
ENTER_SECOND = (
    'mount --bind "$0/groups" /sys/fs/cgroup && mount --bind "$0/own" /proc/$$/cgroup && exec "$@"'
)


def within_second(
    folder: Path, limit_bytes: int, program: Program, used_bytes: int = 0, cached_bytes: int = 0
) -> Program:
    """Its own group has no limit, the one above has. `cached_bytes`: of what is used, files."""
    above = folder / "groups" / "above"
    (above / "job").mkdir(parents=True)
    (folder / "own").write_text("0::/above/job\n")
    (above / "job" / "memory.max").write_text("max\n")
    (above / "memory.max").write_text(f"{limit_bytes}\n")
    (above / "memory.current").write_text(f"{used_bytes}\n")
    inactive = cached_bytes * 3 // 4
    (above / "memory.stat").write_text(
        f"anon {used_bytes - cached_bytes}\nfile {cached_bytes}\n"
        f"inactive_file {inactive}\nactive_file {cached_bytes - inactive}\n"
    )
    enter = ("unshare", "--mount", "sh", "-c", ENTER_SECOND, str(folder))
    return Program((*enter, *program.command))


@pytest.fixture
def second_version(tmp_path: Path) -> None:
    """As for `group`: only an administrator may cover files, and not everywhere."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare (util-linux) is not there")
    tried = within_second(tmp_path / "tried", MIB, Program(("cat", "/proc/self/cgroup")))
    done = subprocess.run(tried.command, capture_output=True, text=True)
    if done.stdout != "0::/above/job\n":
        pytest.skip("files of the system cannot be covered here")


# 80 % of 1,536 MiB are 1,228.8.
def test_a_percentage_is_of_the_group(group: Path, tmp_path: Path) -> None:
    done = run_within(group, 1536 * MIB, tiny(), {"EBBTIDE_BUDGET": "80%"}, tmp_path).succeeded()
    assert 1228 * MIB < done.report["budget_bytes"] < 1229 * MIB
    assert done.said(r"budget 1\.20 GiB \(80% of what one process has\)"), done.output
    assert not done.said("control group"), done.output


def test_a_budget_over_the_limit_is_warned_of(group: Path, tmp_path: Path) -> None:
    done = run_within(group, 1536 * MIB, tiny(), {"EBBTIDE_BUDGET": "2GiB"}, tmp_path).succeeded()
    warning = "more than the control group (container, job) may use, 1.50 GiB"
    assert done.output.count(warning) == 1, done.output


# torch's own memory, more than 100 MiB, is part of the group.
def test_a_budget_over_what_the_group_has_left_is_warned_of(group: Path, tmp_path: Path) -> None:
    budget = {"EBBTIDE_BUDGET": "950MiB"}
    done = run_within(group, 1024 * MIB, tiny(), budget, tmp_path / "given").succeeded()
    warning = (
        r"budget of 9[57]\d\.\d MiB is more than this rank can have here now, [6-9]\d\d\.\d MiB: "
    )
    assert len(re.findall(warning, done.output)) == 1, done.output
    budget = {"EBBTIDE_BUDGET": "95%"}  # 972.8 MiB
    done = run_within(group, 1024 * MIB, tiny(), budget, tmp_path / "share").succeeded()
    assert len(re.findall(warning, done.output)) == 1, done.output
    budget = {"EBBTIDE_BUDGET": "auto"}
    done = run_within(group, 1024 * MIB, tiny(), budget, tmp_path / "auto").succeeded()
    assert not done.said("more than"), done.output


@pytest.mark.usefixtures("second_version")
def test_a_percentage_is_of_a_group_of_the_second_version(tmp_path: Path) -> None:
    program = within_second(tmp_path / "groups", 1536 * MIB, tiny())
    done = run(program, {"EBBTIDE_BUDGET": "80%"}, tmp_path).succeeded()
    assert 1228 * MIB < done.report["budget_bytes"] < 1229 * MIB
    assert done.said(r"budget 1\.20 GiB \(80% of what one process has\)"), done.output


@pytest.mark.usefixtures("second_version")
def test_auto_is_what_a_group_of_the_second_version_has_left(tmp_path: Path) -> None:
    """95 % of 1,536 MiB less the 256 that are no files less 128: 1,075.2."""
    program = within_second(tmp_path / "groups", 1536 * MIB, tiny(), 512 * MIB, 256 * MIB)
    done = run(program, {"EBBTIDE_BUDGET": "auto"}, tmp_path).succeeded()
    assert 1075 * MIB < done.report["budget_bytes"] < 1076 * MIB


# 33 values of 16 MiB are saved for backward, 528 MiB, beside torch's own 300: of stock torch the
# kernel ends the process. The steps that look for the budget go over it, but not so far.
HUNGRY = """
import torch
from torch import nn
net = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(16)])
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
for _ in range(8):
    optimizer.zero_grad()
    net(torch.randn(65536, 64)).square().mean().backward()
    optimizer.step()
"""


def test_the_search_ends_before_the_group_is_full(group: Path, tmp_path: Path) -> None:
    if run_within(group, 640 * MIB, code(HUNGRY), {}, tmp_path / "plain").status != -9:
        pytest.skip("nobody ends the process here")
    done = run_within(
        group, 640 * MIB, code(HUNGRY), {"EBBTIDE_BUDGET": "2MiB"}, tmp_path / "refused"
    )
    assert done.status == 1, done.output
    assert done.output.count("torch.OutOfMemoryError: ebbtide: out of memory") == 1, done.output


# As HUNGRY, with half of the rows after each error; the first size does not fit the group.
HALVING = """
import torch
from torch import nn
net = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(16)])
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
rows = 65536
while True:
    try:
        for _ in range(8):
            optimizer.zero_grad()
            net(torch.randn(rows, 64)).square().mean().backward()
            optimizer.step()
        break
    except RuntimeError as error:
        assert "can't allocate memory" in str(error)
    rows //= 2
print("found", rows)
"""


# Over 20 s: each size, twice. Where the group is full a step fails before anything is decided.
@pytest.mark.nightly
def test_a_size_that_fails_at_the_limit_is_no_word_on_the_next(group: Path, tmp_path: Path) -> None:
    variables = {"EBBTIDE_BUDGET": "40MiB"}
    alone = run(code(HALVING), variables, tmp_path / "alone", out=False)
    found = re.search(r"found \d+", alone.output)
    assert found, alone.output
    done = run_within(group, 640 * MIB, code(HALVING), variables, tmp_path / "within")
    assert found[0] in done.output, done.output


# Three blocks of 128 MiB are live at a time whatever is dropped, beside what torch itself takes:
# more than 494 MiB, 95 % of the group. So a step fails there before anything is decided.
TOO_LARGE = """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(64, 64), nn.GELU())
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
net(torch.randn(1 << 19, 64)).square().mean().backward()
optimizer.step()
print("a step has ended")
"""


def test_where_the_group_is_full_no_smallest_budget_is_named(group: Path, tmp_path: Path) -> None:
    done = run_within(group, 520 * MIB, code(TOO_LARGE), {"EBBTIDE_BUDGET": "2MiB"}, tmp_path)
    assert done.status == 1 and "a step has ended" not in done.output, done.output
    assert done.output.count("torch.OutOfMemoryError: ebbtide: out of memory") == 1, done.output
    assert done.said(r"needs at least EBBTIDE_BUDGET=\d+MiB; what follows"), done.output
    assert not done.said("For the steps before it"), done.output  # no step came before
    assert done.report["smallest_feasible_budget_bytes"] == 0
    assert not done.said("smallest budget|best-effort"), done.output
    assert 0 < done.report["mapped_peak_bytes"] <= 480 * MIB * 95 // 100


@pytest.mark.nightly  # one of the first version stands for it
@pytest.mark.usefixtures("second_version")
def test_the_search_ends_where_a_group_of_the_second_version_would_be_full(tmp_path: Path) -> None:
    """One block of 128 MiB is there when the step begins, and 95 % of 480 less 300 are left: 156. A
    second one fits, beside some small blocks, a third one does not."""
    large = code(TOO_LARGE)
    program = within_second(tmp_path / "groups", 480 * MIB, large, 400 * MIB, 100 * MIB)
    done = run(program, {"EBBTIDE_BUDGET": "2MiB"}, tmp_path)
    assert done.status == 1 and "a step has ended" not in done.output, done.output
    assert done.said(r"needs at least EBBTIDE_BUDGET=\d+MiB; what follows"), done.output
    assert 256 * MIB <= done.report["mapped_peak_bytes"] <= (128 + 156 + 4) * MIB


# Neither block of 192 MiB can be given up: one is written outside of torch's allocator, as a NumPy
# array is, the other one is the step's to write later. The blocks of 16 MiB that are held beside
# both may take no more than what is left then.
UNWRITTEN = """
import torch
from torch import nn
array = b"x" * (192 << 20)
buffer = torch.empty(192 << 20, dtype=torch.uint8)
layer = nn.Linear(64, 64)
held = [layer(torch.ones(1, 64))]
try:
    for _ in range(100):
        held.append(torch.ones(4 << 20))
except RuntimeError as error:
    assert "can't allocate memory" in str(error)
buffer.fill_(1)
print("all is written")
"""


@pytest.mark.nightly  # tests/plugin has its arithmetic
def test_what_is_not_written_yet_is_left_room_for(group: Path, tmp_path: Path) -> None:
    """5 % of 800 MiB are 40: a process that takes the 192 MiB twice is ended."""
    if run_within(group, 800 * MIB, code(UNWRITTEN), {}, tmp_path / "plain").status != -9:
        pytest.skip("nobody ends the process here")
    done = run_within(
        group, 800 * MIB, code(UNWRITTEN), {"EBBTIDE_BUDGET": "2MiB"}, tmp_path / "budget"
    )
    assert done.status == 0 and "all is written" in done.output, done.output


# A step needs some MiB: both budgets fit.
CHANGES = """
import ebbtide
import torch
from torch import nn
net = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(4)])
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
def step():
    optimizer.zero_grad()
    net(torch.randn(2048, 64)).square().mean().backward()
    optimizer.step()
for _ in range(4):
    step()
for budget in ("80%", "2GiB"):
    ebbtide.set_budget(budget)
    step()
    print("now", ebbtide.stats()["memory"]["budget_bytes"], flush=True)
"""


def test_a_changed_budget_is_of_the_group_and_warned_of(group: Path, tmp_path: Path) -> None:
    """80 % of 1,536 MiB are 1,228.8; 2 GiB are more than the group may use."""
    done = run_within(group, 1536 * MIB, code(CHANGES), {"EBBTIDE_BUDGET": "1GiB"}, tmp_path)
    assert done.status == 0, done.output
    share, more = map(int, re.findall(r"^now (\d+)$", done.output, re.MULTILINE))
    assert 1228 * MIB < share < 1229 * MIB and more == 2048 * MIB, done.output
    assert done.output.count("the budget of 2.00 GiB is more than the control group") == 1
    assert done.output.count("more than the control group") == 1, done.output


@pytest.mark.usefixtures("second_version")
def test_a_group_that_is_throttled_before_its_limit(tmp_path: Path) -> None:
    """memory.high is 1,536 MiB, memory.max 4,096."""
    program = within_second(tmp_path / "groups", 4096 * MIB, code(CHANGES))
    (tmp_path / "groups" / "groups" / "above" / "memory.high").write_text(f"{1536 * MIB}\n")
    done = run(program, {"EBBTIDE_BUDGET": "1GiB"}, tmp_path)
    assert done.status == 0, done.output
    share, _ = map(int, re.findall(r"^now (\d+)$", done.output, re.MULTILINE))
    assert 1228 * MIB < share < 1229 * MIB, done.output
    assert done.output.count("may use, 1.50 GiB") == 1, done.output


# `auto` leaves room for what the process takes after its start beside torch's allocator. Some 25 s:
# its steps write most of what they keep to disk.
def test_auto_trains_where_plain_is_ended(group: Path, tmp_path: Path) -> None:
    if run_within(group, 640 * MIB, code(HUNGRY), {}, tmp_path / "plain").status != -9:
        pytest.skip("nobody ends the process here")
    done = run_within(
        group, 640 * MIB, code(HUNGRY), {"EBBTIDE_BUDGET": "auto"}, tmp_path / "auto"
    ).succeeded()
    assert done.report["budget_violations"] == 0, done.output
    assert done.report["steps"] == 8
    assert done.said(r"plain peak [\d.]+ MiB; recomputing takes [\d.]+ % of the time"), done.output
