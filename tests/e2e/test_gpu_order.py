"""What streams and the host do to the same bytes is in order: the emulated GPU reports it else."""

import re
from pathlib import Path

import emulated_gpu
import pytest
from emulated_gpu import in_a_budget
from test_gpu_bits import EVERY_TIME, TIGHT
from tiers import nightly_but

pytestmark = emulated_gpu.where_it_is_built

PREFETCHING = "device_programs.prefetching"  # a stream of its own beside the step's


# What the schedules are for: without the waits between streams the losses are others.
@pytest.mark.nightly
def test_a_missing_wait_shows(tmp_path: Path) -> None:
    program = "training_programs.two_streams"
    right = emulated_gpu.train(program, {"EMULATED_GPU_SCHEDULE": "lazy"}, tmp_path / "right")
    variables = {"EMULATED_GPU_SCHEDULE": "lazy", "EMULATED_GPU_WITHOUT_WAITS": "1"}
    wrong = emulated_gpu.train(program, variables, tmp_path / "wrong")
    assert right.status == 0, right.output
    assert wrong.status != 0 or wrong.bits() != right.bits()


# Status 86 is that of reports (tests/emulated_gpu/order.cpp): in_a_budget would find it, as it does
# for the programs of test_gpu_bits.py.
@pytest.mark.parametrize("program", nightly_but(set(), sorted(EVERY_TIME | {PREFETCHING})))
def test_what_touches_the_same_bytes_is_in_order(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(emulated_gpu.SMALL, "EMULATED_GPU_ORDER", "1")
    for run in in_a_budget(program, TIGHT[program], tmp_path):
        assert "no order" not in run.output, run.output


def reported(output: str, later: str, earlier: str) -> bool:
    line = rf"no order: {later} \(task \d+ of stream \d+\) reads \d+ bytes .*"
    line += rf" {earlier} \(task \d+ of the legacy stream\) writes: it comes after"
    return re.search(line, output) is not None


# Eager: what is asked for first runs first, so the bits are right by chance. The second half of the
# model reads what the first one writes; a copy to the host reads what the step writes.
@pytest.mark.nightly
def test_a_missing_wait_is_reported_where_the_bits_are_right(tmp_path: Path) -> None:
    ordered = {"EMULATED_GPU_SCHEDULE": "eager", "EMULATED_GPU_ORDER": "1"}
    without = ordered | {"EMULATED_GPU_WITHOUT_WAITS": "1"}
    program = "training_programs.two_streams"
    right = emulated_gpu.train(program, ordered, tmp_path / "right")
    wrong = emulated_gpu.train(program, without, tmp_path / "wrong")
    assert right.status == 0 and "no order" not in right.output, right.output
    assert wrong.bits() == right.bits()
    assert wrong.status == 86, wrong.output
    assert reported(wrong.output, r"aten::\w+", r"aten::\w+"), wrong.output

    # One stream: only Ebbtide's own copies wait for events.
    program = "training_programs.mlp"
    plain = emulated_gpu.train(program, without, tmp_path / "plain")
    assert plain.status == 0 and "no order" not in plain.output, plain.output
    budget = {"EBBTIDE_BUDGET": str(emulated_gpu.budget(plain, TIGHT[program]))}
    ours = emulated_gpu.train(program, without | budget, tmp_path / "ours")
    assert ours.bits() == plain.bits()
    assert ours.status == 86, ours.output
    assert reported(ours.output, "a copy", r"aten::\w+"), ours.output


REUSED = """
import torch
side = torch.cuda.Stream()
block = torch.ones(1 << 20, device="cuda")
address = block.data_ptr()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    torch.cuda._sleep(50_000_000)
    copy = block.clone()
RECORD
del block
again = torch.full((1 << 20,), 2.0, device="cuda")
print("reused", again.data_ptr() == address)
torch.cuda.synchronize()
"""


# A program that forgets record_stream: the block that its side stream reads is handed out again.
def test_a_block_that_is_reused_too_early_is_reported() -> None:
    variables = {"EMULATED_GPU_ORDER": "1", "EBBTIDE_BUDGET": "512MiB"}
    for record, status, reports in (("block.record_stream(side)", 0, 0), ("", 86, 1)):
        ended, output = emulated_gpu.code(REUSED.replace("RECORD", record), variables)
        assert (ended, output.count("no order: ")) == (status, reports), output
        assert f"reused {reports == 1}" in output, output
    assert "writes 4194304 bytes" in output, output


PINNED = """
import torch
pinned = torch.zeros(1000, pin_memory=True)
block = torch.ones(1000, device="cuda")
pinned.copy_(block, non_blocking=True)
WAIT
pinned.sum()
block.copy_(pinned, non_blocking=True)
pinned.sum()
WAIT
pinned.fill_(2)
"""


# Two sums before the copy to the host is waited for; a fill before either copy is: 4 pairs.
def test_the_host_waits_for_pinned_memory() -> None:
    for wait, status, reports in (("torch.cuda.synchronize()", 0, 0), ("", 86, 4)):
        variables = {"EMULATED_GPU_ORDER": "1"}
        ended, output = emulated_gpu.code(PINNED.replace("WAIT", wait), variables)
        assert (ended, output.count("no order: ")) == (status, reports), output
    assert "the host's aten::sum reads 4000 bytes" in output, output
    assert "the host's aten::fill_ writes 4000 bytes" in output, output
