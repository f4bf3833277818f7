"""What torch asks of our CUDA allocator, on an emulated GPU: programs, settings, pools."""

import emulated_gpu
import pytest
from processes import PYTHON, ROOT

pytestmark = emulated_gpu.where_it_is_built

SCHEDULES = ("eager", "lazy", "random:3")


# As on a GPU: 14 tests of the allocator and its programs, 90 s a schedule.
@pytest.mark.nightly
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_torchs_programs_pass(schedule: str) -> None:
    tests = str(ROOT / "tests" / "gpu" / "test_torch_gpu.py")
    command = (PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests)
    variables = {"EMULATED_GPU_SCHEDULE": schedule, "EMULATED_GPU_MIB": "6144"}
    status, output = emulated_gpu.start(command, variables)
    assert status == 0, output
    assert "14 passed" in output, output


def test_settings_without_effect_are_named() -> None:
    variables = {
        "EBBTIDE_BUDGET": "1GiB",
        "EBBTIDE_LOG": "debug",
        "PYTORCH_ALLOC_CONF": "max_split_size_mb:64,pinned_use_background_threads:True",
    }
    status, output = emulated_gpu.code("import torch; torch.ones(3, device='cuda')", variables)
    assert status == 0, output
    assert "PYTORCH_ALLOC_CONF: max_split_size_mb has no effect" in output, output
    assert "pinned_use_background_threads has" not in output, output


# As NCCL's user buffers, symmetric memory and FSDP2's communication buffers have it. 4 MiB are
# taken twice, the second time from the pool's idle blocks; a block that a side stream reads late
# is not among these, and what is live when the pool ends goes back when it is freed.
OWN_ALLOCATOR = """
import ctypes, torch
path = "LIBRARY"
counts = ctypes.CDLL(path)
allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "pluggable_alloc", "pluggable_free")
pool = torch.cuda.MemPool(allocator.allocator(), no_split=True)
side = torch.cuda.Stream()
def inside(value, mib=4):
    with torch.cuda.use_mem_pool(pool):
        return torch.full((mib << 20,), value, dtype=torch.uint8, device="cuda")
ours = torch.ones(1000, device="cuda")
assert counts.pluggable_made() == 0
first = inside(1)
assert (counts.pluggable_made(), counts.pluggable_live()) == (1, 1)
assert len(torch.cuda.memory_snapshot(pool.id)) == 1
address = first.data_ptr()
del first
again = inside(2)
assert again.data_ptr() == address and counts.pluggable_made() == 1
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    torch.cuda._sleep(50_000_000)
    copy = again.clone()
again.record_stream(side)
del again
third = inside(3)
assert third.data_ptr() != address and counts.pluggable_made() == 2
side.synchronize()
assert int((copy != 2).sum()) == 0 and int((third != 3).sum()) == 0
del pool
assert counts.pluggable_live() == 1
del third
assert counts.pluggable_live() == 0
print("done", torch.cuda.memory.get_allocator_backend())
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_pool_has_an_allocator_of_its_own(schedule: str) -> None:
    library = emulated_gpu.ON_DEVICE.parent / "libemulated_gpu_pluggable_allocator.so"
    variables = {"EBBTIDE_BUDGET": "512MiB", "EMULATED_GPU_SCHEDULE": schedule}
    status, output = emulated_gpu.code(OWN_ALLOCATOR.replace("LIBRARY", str(library)), variables)
    assert status == 0, output
    assert "done ebbtide" in output, output


# Its block is read by a graph, and freed while that is captured: each replay reads it again.
OWN_ALLOCATOR_IN_A_GRAPH = """
import torch
path = "LIBRARY"
allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "pluggable_alloc", "pluggable_free")
pool = torch.cuda.MemPool(allocator.allocator(), no_split=True)
side = torch.cuda.Stream()
def inside(value):
    with torch.cuda.use_mem_pool(pool):
        return torch.full((4 << 20,), value, dtype=torch.uint8, device="cuda")
block = inside(2)
address = block.data_ptr()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=side):
    copy = block.clone()
    block.record_stream(side)
    del block
next = inside(5)
assert next.data_ptr() != address
for replay in range(2):
    copy.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert int((copy != 2).sum()) == 0
print("done", torch.cuda.memory.get_allocator_backend())
"""


def test_a_graph_reads_a_block_of_a_pools_own_allocator() -> None:
    library = emulated_gpu.ON_DEVICE.parent / "libemulated_gpu_pluggable_allocator.so"
    text = OWN_ALLOCATOR_IN_A_GRAPH.replace("LIBRARY", str(library))
    status, output = emulated_gpu.code(text, {"EBBTIDE_BUDGET": "512MiB"})
    assert status == 0, output
    assert "done ebbtide" in output, output
