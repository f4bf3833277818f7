"""Torch's CUDA allocator is ours from the import on, with or without a GPU."""

import pytest
import torch
from processes import LIBRARIES, code, run, tiny
from tiers import nightly_but

BACKEND = """
import torch
print("backend", torch.cuda.memory.get_allocator_backend())
"""

pytestmark = [
    pytest.mark.skipif(torch.version.cuda is None, reason="this torch is built for the CPU only"),
    pytest.mark.skipif(
        not (LIBRARIES / "libebbtide_torch_cuda.so").exists(), reason="built without CUDA"
    ),
]

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


def test_it_stays_torchs_without_us(tmp_path) -> None:
    done = run(code(BACKEND), {}, tmp_path, out=False).succeeded()
    assert "backend native" in done.output


@pytest.mark.parametrize("variables", [{"EBBTIDE": "1"}, {"EBBTIDE_BUDGET": "2GiB"}])
def test_it_is_ours_when_asked_for(tmp_path, variables) -> None:
    done = run(code(BACKEND), variables, tmp_path, out=False).succeeded()
    assert "backend ebbtide" in done.output


def test_torchs_own_is_kept_on_request(tmp_path) -> None:
    done = run(
        code(BACKEND), {"EBBTIDE": "1", "EBBTIDE_ALLOCATOR": "torch"}, tmp_path, out=False
    ).succeeded()
    assert "backend native" in done.output


@pytest.mark.parametrize(
    "name",
    [
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
        "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
    ],
)
@pytest.mark.parametrize("value", nightly_but({"1"}, ["1", "0"]))
def test_what_cannot_go_together_is_refused(tmp_path, name, value) -> None:
    program = code(f"""
import ctypes
import torch
install = ctypes.CDLL("{LIBRARIES}/libebbtide_torch_cuda.so").ebbtide_cuda_install
install.restype = ctypes.c_char_p
print("said", install(b""))
print("backend", torch.cuda.memory.get_allocator_backend())
""")
    done = run(program, {name: value}, tmp_path, out=False).succeeded()
    # Of the first its presence counts for torch, of the second its value.
    refused = value == "1" or name.startswith("PYTORCH")
    assert done.said(f"said b.{name}.* unset it" if refused else "said None")
    assert done.said("backend native" if refused else "backend ebbtide")


def test_memory_without_a_budget_is_refused(tmp_path) -> None:
    program = code(f"""
import ctypes
import torch
install = ctypes.CDLL("{LIBRARIES}/libebbtide_torch_cuda.so").ebbtide_cuda_install
install.restype = ctypes.c_char_p
print("said", install(b""))
""")
    variables = {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}
    done = run(program, variables, tmp_path, out=False).succeeded()
    assert done.said("said b.PYTORCH_ALLOC_CONF asks for backend:cudaMallocAsync"), done.output


@without_gpu
def test_without_a_gpu_torch_says_what_it_says(tmp_path) -> None:
    program = code("""
import torch
print("available", torch.cuda.is_available())
try:
    torch.ones(4, device="cuda")
except Exception as error:
    print("error", type(error).__name__, str(error).splitlines()[0])
""")
    plain = run(program, {}, tmp_path / "plain", out=False).succeeded()
    ours = run(program, {"EBBTIDE": "1"}, tmp_path / "ours", out=False).succeeded()
    said = [line for line in ours.output.splitlines() if line.startswith(("available", "error"))]
    assert said == plain.output.splitlines()[-2:]


@without_gpu
def test_without_a_gpu_the_budget_is_the_cpus(tmp_path) -> None:
    done = run(tiny(steps=2), {"EBBTIDE_BUDGET": "1GiB"}, tmp_path).succeeded()
    assert done.report["budget_bytes"] == 1 << 30
