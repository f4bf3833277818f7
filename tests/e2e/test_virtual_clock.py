"""The emulated GPU's mode *clock*: real sizes, virtual time, no contents (docs/gpu.md)."""

import ast
import json
from pathlib import Path

import emulated_gpu
import pytest
from processes import free_port

pytestmark = emulated_gpu.where_it_is_built

# The host's time is that of its calls to CUDA: it repeats, on any machine.
CLOCK = {
    "EMULATED_GPU_MODE": "clock",
    "EMULATED_GPU_MIB": "81559",
    "EMULATED_GPU_HOST_PERCENT": "0",
}

# 24 products of [65536, 8192] x [8192, 8192] in bfloat16, and their gradients.
STEPS = """
import ctypes, resource, torch
times = ctypes.CDLL(None).emulated_gpu_times
def figures():
    all_of_them = (ctypes.c_double * 12)()
    times(all_of_them, ctypes.c_size_t(12))
    return list(all_of_them)
with torch.device("cuda"):
    layers = (torch.nn.Linear(8192, 8192, dtype=torch.bfloat16) for _ in range(24))
    model = torch.nn.Sequential(*(m for each in layers for m in (each, torch.nn.ReLU())))
    x = torch.randn(65536, 8192, dtype=torch.bfloat16)
steps = []
for _ in range(5):
    model.zero_grad()
    before = figures()
    loss = model(x).float().square().mean()
    loss.backward()
    loss.item()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(p.grad, alpha=-1e-3)
    torch.cuda.synchronize()
    steps.append([b - a for a, b in zip(before, figures())])
host_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
print([steps, loss.item(), torch.cuda.max_memory_allocated(), host_mib])
"""


def steps(variables: dict[str, str]) -> list:
    status, output = emulated_gpu.code(STEPS, CLOCK | variables)
    assert status == 0, output
    (told,) = (line for line in output.splitlines() if line.startswith("[["))
    return ast.literal_eval(told)


# A product has 512 x 32 tiles of 128 x 256: 124.1 waves of 132, so 125. There are 24 forward and 47
# backward. Elementwise kernels read or write some 150 GiB, which take 50 ms of 850.
def test_a_step_of_real_size_repeats_its_virtual_time() -> None:
    (first, loss, peak, host_mib), (second, *_) = steps({}), steps({})
    assert first == second
    now, processor, *_ = first[-1]
    assert processor == 0
    product_ns = 125 * 2 * 128 * 256 * 8192 / (0.8 * 989400 / 132)
    assert 0.98 * 71 * product_ns < now < 1.15 * 71 * product_ns
    assert loss == 0  # nobody computed it
    # Parameters take 3 GiB, x and a value of each layer 25. None of it is the host's.
    assert peak > 28 << 30
    assert host_mib < 2048


# A step takes some 850 ms of virtual time, some 50 of real time. Its loss is waited for before
# the update, which ends it for Ebbtide; the update takes 3 ms. Both sums are of virtual time, which
# the machine's speed is no part of.
def test_ebbtide_reads_the_virtual_clock(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    variables = {"EBBTIDE": "1", "EBBTIDE_REPORT": str(report), "EBBTIDE_PORT": str(free_port())}
    measured, *_ = steps(variables)
    told = json.loads(report.read_text())
    total = sum(each[0] for each in measured) / 1e9
    assert told["steps"] == 5
    assert told["step_seconds"]["total"] == pytest.approx(total, rel=0.1)


def test_what_values_decide_is_refused() -> None:
    text = "import torch; torch.ones(4, device='cuda').nonzero()"
    status, output = emulated_gpu.code(text, CLOCK)
    assert status != 0
    assert "nonzero has results whose sizes its values decide" in output
    assert "Use EMULATED_GPU_MODE=bits" in output
