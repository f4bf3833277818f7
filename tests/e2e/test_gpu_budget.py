"""What a budget of a GPU counts, who judges it, what a refusal names, and what it takes to hold."""

import json
import re
from pathlib import Path

import emulated_gpu
import pytest
from conftest import MIB
from emulated_gpu import STREAMS
from test_emulated_gpu import PLAIN
from tiers import nightly_but

pytestmark = emulated_gpu.where_it_is_built

MLP = "training_programs.mlp_with_dropout"


@pytest.fixture(scope="module")
def plain_mlp(tmp_path_factory: pytest.TempPathFactory) -> emulated_gpu.Run:
    plain = emulated_gpu.train(MLP, {}, tmp_path_factory.mktemp("mlp"))
    assert plain.status == 0, plain.output
    return plain


def faulty(plain: emulated_gpu.Run, folder: Path, **fault: str) -> emulated_gpu.Run:
    variables = {"EBBTIDE_BUDGET": str(emulated_gpu.budget(plain, 0.6))} | fault
    return emulated_gpu.train(MLP, variables, folder)


# 2 MiB beside what others use, less than the parameters take: the steps go over it, which is said,
# until the refusal names a budget. It takes three runs on an emulated GPU. Each run starts torch.
@pytest.mark.parametrize(
    "program", nightly_but({MLP}, (MLP, "training_programs.transformer_with_dropout"))
)
def test_the_budget_that_a_refusal_names_trains(program: str, tmp_path: Path) -> None:
    plain = emulated_gpu.train(program, {}, tmp_path / "plain")
    too_small = str(plain.result["others"] + 2 * MIB)
    refused = emulated_gpu.train(program, {"EBBTIDE_BUDGET": too_small}, tmp_path / "refused")
    assert refused.status != 0
    assert refused.output.count("training goes on over the budget for at most 3 more") == 1
    assert refused.output.count("CUDA out of memory.") == 1, refused.output
    named = re.search(r"Smallest budget: EBBTIDE_BUDGET=(\d+MiB)\.", refused.output)
    assert named, refused.output
    ours = emulated_gpu.train(program, {"EBBTIDE_BUDGET": named[1]}, tmp_path / "named")
    assert ours.status == 0, ours.output
    assert ours.bits() == plain.bits(), ours.output
    assert ours.report is not None and ours.report["budget_violations"] == 0, ours.output


# On two streams nothing is dropped, and no step is recorded by which a budget could be judged: it
# is a bound from the second step on, not only a wish.
def test_a_budget_that_nobody_can_judge_is_a_bound(tmp_path: Path) -> None:
    program = "training_programs.two_streams"
    plain = emulated_gpu.train(program, {"GPU_TEST_TRAINING_STEPS": "1"}, tmp_path / "plain")
    variables = {"EBBTIDE_BUDGET": str(emulated_gpu.budget(plain, 0.6))}
    ours = emulated_gpu.train(program, variables, tmp_path / "ours")
    assert ours.status != 0
    assert STREAMS in ours.output, ours.output
    assert "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate" in ours.output


# Eight layers save 512 KiB at least each, on the GPU; what others use of it counts in budgets.
def test_without_a_budget_the_gpu_is_measured(plain_mlp: emulated_gpu.Run, tmp_path: Path) -> None:
    ours = emulated_gpu.train(MLP, {"EBBTIDE": "1"}, tmp_path)
    assert ours.bits() == plain_mlp.bits(), ours.output
    assert ours.report is not None, ours.output
    assert ours.report["budget_bytes"] is None
    assert ours.report["activation_bytes"] >= 8 * MIB // 2
    assert 0 <= ours.report["others_bytes"] - plain_mlp.result["others"] <= 8 * MIB
    named = re.findall(r"EBBTIDE_BUDGET=(\d+)MiB", ours.output)
    assert named, ours.output
    assert int(named[0]) * MIB > ours.report["others_bytes"] + ours.report["base_bytes"]


def test_a_budget_of_what_a_step_takes_counts_what_others_use(
    plain_mlp: emulated_gpu.Run, tmp_path: Path
) -> None:
    ours = emulated_gpu.train(MLP, {"EBBTIDE_BUDGET": "-50%"}, tmp_path)
    assert ours.status == 0, ours.output
    assert ours.bits() == plain_mlp.bits(), ours.output
    report = ours.report
    assert report is not None and report["budget_violations"] == 0, ours.output
    half = report["plain_peak_bytes"] - int(0.5 * report["activation_bytes"])
    assert abs(report["budget_bytes"] - report["others_bytes"] - half) <= 4 * MIB
    assert report["spilled_bytes"] + report["recomputed_ops"] > 0, ours.output


# A script on the CPU is measured as anywhere, though there is a GPU.
def test_without_a_budget_a_cpu_is_measured_beside_a_gpu(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    status, output = emulated_gpu.code(
        PLAIN.replace("DEVICE", "cpu"), {"EBBTIDE": "1", "EBBTIDE_REPORT": str(report)}
    )
    assert status == 0, output
    told = json.loads(report.read_text())
    assert told["steps"] == 4 and told["others_bytes"] == 0
    assert told["activation_bytes"] > 0


# A page that the device does not give once, others that take 2 MiB each 500 launches: budget and
# bits hold.
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"EMULATED_GPU_FAIL_PAGE": "10"}, id="page", marks=pytest.mark.nightly),
        pytest.param({"EMULATED_GPU_FAIL_PAGE": "25"}, id="later_page", marks=pytest.mark.nightly),
        pytest.param({"EMULATED_GPU_OTHERS_EVERY": "500"}, id="others"),
    ],
)
def test_training_goes_on(
    plain_mlp: emulated_gpu.Run, fault: dict[str, str], tmp_path: Path
) -> None:
    ours = faulty(plain_mlp, tmp_path, **fault)
    assert ours.status == 0, ours.output
    assert ours.bits() == plain_mlp.bits(), ours.output
    assert ours.report is not None and ours.report["budget_violations"] == 0
    assert "to disk" not in ours.output  # values of a GPU go to pinned memory


# A sticky error: the program ends with CUDA's error, and leaves no result.
def test_a_trap_ends_the_program(plain_mlp: emulated_gpu.Run, tmp_path: Path) -> None:
    ours = faulty(plain_mlp, tmp_path, EMULATED_GPU_TRAP="700")
    assert ours.status != 0
    assert "unspecified launch failure" in ours.output, ours.output
    assert not ours.result


def test_a_device_without_virtual_memory_is_refused(tmp_path: Path) -> None:
    variables = {"EBBTIDE_BUDGET": "1GiB", "EMULATED_GPU_VIRTUAL_MEMORY": "0"}
    ours = emulated_gpu.train(MLP, variables, tmp_path)
    assert ours.status != 0
    assert "CUDA device 0 has no virtual memory management" in ours.output, ours.output
    assert "EBBTIDE_ALLOCATOR=torch" in ours.output, ours.output
    assert not ours.result
