"""A disk that fails what it was given: no step goes on with other bytes, and no op is blamed."""

import json
import sys
from pathlib import Path

import pytest
from processes import LIBRARIES, ROOT, Finished, Program, run

# About 20 MiB plain: per branch the product and what the loss reads, 1 MiB each. The batch is the
# program's, so what a replay reads is never on the disk. The storage of an mse_loss is as large as
# its input, with one number: that original alone has to be read to be compared.
TRAINS = """
import ctypes, json, sys
import torch
from torch import nn
import planner

LOSSES = {
    "gelu": lambda x, target: nn.functional.gelu(x).square().mean(),
    "mse": lambda x, target: nn.functional.mse_loss(x, target).square(),
}
ALL = 1 << 20

def train(kind, fails):
    torch.manual_seed(0)
    weights = nn.ParameterList(torch.randn(128) for _ in range(8))
    optimizer = torch.optim.SGD(weights.parameters(), 1e-2)
    data, target = torch.randn(2048, 128), torch.randn(2048, 128)
    losses = []
    for step in range(1, 7):
        if fails == "loses writes":
            disk.ebbtide_lose_writes(True)
        if fails.startswith("fails"):
            disk.ebbtide_fail_reads({"fails reads": ALL, "fails one read": 1}[fails] * (step == 3))
        loss = sum(LOSSES[kind](data * weight, target) for weight in weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        planner.settle()
        losses.append(loss.item())
    return losses

torch.set_num_threads(1)
disk = ctypes.CDLL(None)
kind, fails = sys.argv[1:]
print(json.dumps({each: train(each, fails) for each in (LOSSES if kind == "all" else [kind])}))
"""


def trained(kind: str, fails: str, variables: dict[str, str], folder: Path) -> Finished:
    program = Program((sys.executable, "-c", TRAINS, kind, fails))
    paths = {"PYTHONPATH": str(ROOT / "tests" / "e2e")}
    return run(program, {**variables, **paths}, folder, out=False)


def failing(kind: str, fails: str, folder: Path) -> Finished:
    variables = {
        "EBBTIDE_BUDGET": {"gelu": "9MiB", "mse": "8MiB"}[kind],
        "EBBTIDE_PLANNER": "greedy",
        "EBBTIDE_LOG": "debug",
        "EBBTIDE_SPILL_DIR": str(folder),
        "LD_PRELOAD": str(LIBRARIES / "libebbtide_forgetful_disk.so"),
    }
    return trained(kind, fails, variables, folder)


def losses_of(done: Finished) -> dict[str, list[float]]:
    assert done.status == 0, done.output
    (line,) = [line for line in done.output.splitlines() if line.startswith("{")]
    losses: dict[str, list[float]] = json.loads(line)
    return losses


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    return losses_of(trained("all", "nothing", {}, tmp_path_factory.mktemp("plain")))


def test_a_disk_that_loses_what_was_written_ends_the_run(tmp_path: Path) -> None:
    """Zeros came back before, and made other gradients."""
    done = failing("gelu", "loses writes", tmp_path)
    assert done.status == 1 and not done.said(r"(?m)^\{"), done.output
    why = f"read error in {tmp_path}: other bytes came back than were written"
    what_to_type = r"Name a folder on another disk: EBBTIDE_SPILL_DIR \[EB58\]"
    assert done.said(f"ebbtide: the spill file could not be read back: {why}. {what_to_type}"), (
        done.output
    )


def test_a_replay_is_compared_without_the_disk(
    plain: dict[str, list[float]], tmp_path: Path
) -> None:
    """Step 3 verifies the plan. All of its originals are spilled, and none can be read."""
    done = failing("gelu", "fails reads", tmp_path)
    assert losses_of(done)["gelu"] == plain["gelu"]
    assert done.said(r"debug: step 3: .* spilled [1-9]\d*, .* plan verified"), done.output
    assert done.said("debug: step 4: .* plan followed"), done.output
    assert not done.said("not computed again"), done.output


def test_an_original_that_cannot_be_read_is_no_ops_fault(
    plain: dict[str, list[float]], tmp_path: Path
) -> None:
    """Read again for its use it is there. Another plan is verified then, with the same replays."""
    done = failing("mse", "fails one read", tmp_path)
    assert losses_of(done)["mse"] == plain["mse"]
    failed = "the verification step failed: ebbtide: the spill file could not be read back"
    assert done.said(f"debug: the step left its plan: {failed}: read error"), done.output
    assert done.said("debug: step 3: .* plan left"), done.output
    assert done.said("debug: step 5: .* plan verified"), done.output
    assert not done.said("not computed again"), done.output
