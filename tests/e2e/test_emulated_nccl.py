"""NCCL between processes on an emulated GPU (tests/emulated_gpu/nccl): its rules, then jobs of
ProcessGroupNCCL, two processes each."""

import subprocess

import emulated_gpu
import pytest
import torch
from processes import PYTHON, ROOT

pytestmark = emulated_gpu.where_it_is_built

RULES = str(ROOT / "tests" / "e2e" / "nccl_rules.py")
IN_ONE_GROUP = (
    "reductions",
    "to_one",
    "parts",
    "from_one",
    "scaled",
    "messages",
    "many_in_a_group",
    "streams_in_turn",
    "splits",
    "replayed",
    "waiting_elsewhere",
    "another_thread",
)


def names(library: str, which: str) -> set[str]:
    command = ("nm", "-D", which, library)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    last = (line.split()[-1] for line in done.stdout.splitlines())
    return {name for name in last if name.startswith("nccl")}


def test_all_that_torch_imports_is_there() -> None:
    imported = names(f"{torch.__path__[0]}/lib/libtorch_cuda.so", "--undefined-only")
    assert len(imported) > 30
    library = emulated_gpu.ON_DEVICE.parent / "libnccl.so.2"
    assert imported <= names(str(library), "--defined-only")


# A second each.
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random:3"])
def test_rules(schedule: str) -> None:
    variables = {"EMULATED_GPU_SCHEDULE": schedule}
    status, output = emulated_gpu.start((PYTHON, RULES, *IN_ONE_GROUP), variables)
    assert status == 0, output
    for rule in IN_ONE_GROUP:
        assert output.count(f": {rule}\n") == 2, output


FAILURES = {
    "a_rank_that_ends": "rank 1 has ended or aborted",
    "nobody_comes": "rank 1 has not come to AllReduce within the time limit",
    "another_call": "rank 1 asked for AllReduce of 9 ncclInt32",
    "both_send_first": "has not come to Send within the time limit",
}


@pytest.mark.nightly
@pytest.mark.parametrize("schedule", ["eager", "lazy"])
@pytest.mark.parametrize("rule", FAILURES)
def test_a_failure_is_an_error_and_no_hang(rule: str, schedule: str) -> None:
    variables = {"EMULATED_GPU_SCHEDULE": schedule}
    status, output = emulated_gpu.start((PYTHON, RULES, rule), variables)
    assert status == 0, output
    assert FAILURES[rule] in output


def gpu_test(name: str, schedule: str) -> None:
    tests = str(ROOT / "tests" / "gpu" / "test_nccl_gpu.py")
    command = (PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests, "-k", f"[{name}]")
    variables = {"EMULATED_GPU_SCHEDULE": schedule, "EMULATED_GPU_DEVICES": "2"}
    status, output = emulated_gpu.start(command, variables)
    assert status == 0, output
    assert "1 passed" in output, output


JOBS = ("ddp", "messages", "pipeline", "tensor_parallel", "fully_sharded")


# As on two GPUs: plain, then in a budget, the same bits. Two trainings of two processes: what a
# GPU would compute, a core does, 40 s.
@pytest.mark.nightly
@pytest.mark.parametrize("name", JOBS)
def test_same_bits_in_a_budget(name: str) -> None:
    gpu_test(name, "random:3")


@pytest.mark.nightly
@pytest.mark.parametrize("schedule", ["eager", "lazy"])
@pytest.mark.parametrize("name", JOBS)
def test_same_bits_in_other_schedules(name: str, schedule: str) -> None:
    gpu_test(name, schedule)
