"""Torch on a real GPU with our allocator, beside torch's own. Skipped where there is no GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
GIB = 1 << 30

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")


def start(name: str, variables: dict[str, str]) -> tuple[dict, str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("EBBTIDE")}
    environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    environment |= variables
    done = subprocess.run(
        (sys.executable, str(HERE / "torch_programs.py"), name),
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert result["backend"] == ("ebbtide" if variables else "native")
    return result, done.stderr


def run(name: str, variables: dict[str, str]) -> dict:
    return start(name, variables)[0]


def test_statistics_have_torchs_keys() -> None:
    ours, torchs = run("stats", {"EBBTIDE": "1"}), run("stats", {})
    assert ours["keys"] == torchs["keys"]
    # 1,000 bytes are two grains of 512; 3 MiB are whole units of 4 KiB.
    assert ours["allocated"] == 1024 + 3 * MIB
    assert ours["requested"] == torchs["requested"] == 1000 + 3 * MIB
    assert ours["allocated_after"] == 0
    assert ours["peak"] >= ours["allocated"]
    assert ours["reserved_at_end"] == 0
    assert ours["summary"]


@pytest.mark.parametrize("name", ["record_stream", "graph", "graph_thrown_away"])
@pytest.mark.parametrize("variables", [{"EBBTIDE": "1"}, {"EBBTIDE_BUDGET": "3GiB"}])
def test_nothing_is_written_over(name: str, variables: dict[str, str]) -> None:
    assert run(name, variables)["wrong"] == 0


def test_a_private_pool_is_private() -> None:
    result = run("pool", {"EBBTIDE": "1"})
    assert result["shared"] == 0
    assert result["uses"] == run("pool", {})["uses"]


# Whether a budget is possible only training steps tell: a program that has none goes over it, and
# is told so when it ends. It takes 4 GiB in all.
def test_without_a_training_step_the_budget_is_exceeded_and_that_is_said() -> None:
    result, said = start("fill_up", {"EBBTIDE_BUDGET": "2GiB"})
    assert result["ooms"] == 0
    assert result["blocks"] == 64
    assert said.count("the budget of 2.00 GiB was exceeded, ") == 1, said
    assert said.count("no training step was seen") == 1, said


def test_a_fraction_is_a_budget() -> None:
    result = run("fraction", {"EBBTIDE": "1"})
    assert result["used"] <= GIB + 64 * MIB
    assert result["ooms"] == 1


def test_the_viewer_opens_the_history() -> None:
    result = run("history", {"EBBTIDE": "1"})
    assert {"alloc", "free_requested", "free_completed", "segment_map"} <= set(result["actions"])
    assert result["segments_add_up"]
    assert result["frames"]
    assert min(result["pages"]) > 1000
    assert result["dumped"] > 1000


@pytest.mark.parametrize("variables", [{"EBBTIDE": "1"}, {"EBBTIDE_BUDGET": "4GiB"}])
def test_training_gives_the_same_bits(variables: dict[str, str]) -> None:
    ours, torchs = run("train", variables), run("train", {})
    assert ours["losses"] == torchs["losses"]
    assert ours["parameters"] == torchs["parameters"]


# A child takes a descriptor of its parent: pidfd_open (434), pidfd_getfd (438).
TAKE = """
import ctypes, os
call = ctypes.CDLL(None).syscall
process = call(434, os.getppid(), 0)
raise SystemExit(process < 0 or call(438, process, 0, 0) < 0)
"""


def may_take_descriptors() -> bool:
    return subprocess.run((sys.executable, "-c", TAKE)).returncode == 0


@pytest.mark.skipif(not may_take_descriptors(), reason="this system forbids a child pidfd_getfd")
def test_another_process_sees_a_tensor() -> None:
    result = run("processes", {"EBBTIDE": "1"})
    assert result["read"] == 5 * MIB
    assert result["written"] == 5 * MIB
