"""What torch's Python shows of our CUDA allocator, over host memory: numbers, snapshot, viewer."""

import json
import re

import pytest
from processes import LIBRARIES, code, run

LIBRARY = LIBRARIES / "libebbtide_host_gpus.so"
MIB = 1 << 20

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="built without CUDA")

# Two devices of 256 MiB, a budget of 64. Device 0: 4 MiB live, 3 MiB freed beside them, 10 MiB
# freed while another stream uses them, and a request that is refused. Device 1: 1000 bytes.
PROGRAM = """
import ctypes, json, pickle
import torch
from torch.cuda import _memory_viz, memory

gpus = ctypes.CDLL("LIBRARY")
gpus.host_gpus_install.argtypes = [ctypes.c_int64]
gpus.host_gpus_record.argtypes = [ctypes.c_size_t]
gpus.host_gpus_take.restype = ctypes.c_void_p
gpus.host_gpus_take.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
gpus.host_gpus_give.argtypes = [ctypes.c_void_p]
gpus.host_gpus_give_while_used.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
MIB = 1 << 20
gpus.host_gpus_install(64 * MIB)
gpus.host_gpus_record(1000)

def request(device, size, stream=0):
    return gpus.host_gpus_take(device, size, stream)

kept, idle, used = request(0, 4 * MIB), request(0, 3 * MIB), request(0, 10 * MIB, 1)
request(1, 1000)
gpus.host_gpus_give(idle)
gpus.host_gpus_give_while_used(used, 0, 2)
assert request(0, 60 * MIB) is None

snapshot = pickle.loads(pickle.dumps(memory._snapshot()))
same = lambda lines: lines  # else a script is fetched that draws them
memory.is_initialized = lambda: True
print(json.dumps({
    "segments": snapshot["segments"],
    "traces": snapshot["device_traces"],
    "settings": snapshot["allocator_settings"],
    "pages": [_memory_viz.trace_plot(snapshot), _memory_viz.segment_plot(snapshot)],
    "blocks": _memory_viz.memory(snapshot, same),
    "by_segment": _memory_viz.segments(snapshot, same),
    "segsum": _memory_viz.segsum(snapshot),
    "trace": _memory_viz.trace(snapshot),
    "stats": memory.memory_stats(0),
    "summary": memory.memory_summary(0),
}))
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory) -> dict:
    program = code(PROGRAM.replace("LIBRARY", str(LIBRARY)))
    streams = {"LD_PRELOAD": str(LIBRARIES / "libebbtide_torch_streams.so")}
    done = run(program, streams, tmp_path_factory.mktemp("snapshot"), out=False).succeeded()
    return json.loads(done.output.strip().splitlines()[-1])


def test_segments_are_whole(shown) -> None:
    segments = shown["segments"]
    assert [s["device"] for s in segments] == [0, 0, 1]
    for segment in segments:
        ends = [segment["address"]]
        for block in segment["blocks"]:
            assert block["address"] == ends[-1]
            ends.append(block["address"] + block["size"])
            assert block["state"] == "inactive" or block["frames"][0]["name"] == "request"
        assert ends[-1] == segment["address"] + segment["total_size"]
    large = {s["stream"]: s for s in segments[:2]}
    # 4 + 3 MiB take four pages of 2; the last MiB and the freed three are one idle block.
    assert [(b["size"], b["state"]) for b in large[0]["blocks"]] == [
        (4 * MIB, "active_allocated"),
        (4 * MIB, "inactive"),
    ]
    assert [b["state"] for b in large[0x1000]["blocks"]] == ["active_pending_free"]
    assert segments[2]["requested_size"] == 1000


def test_the_history_is_in_order(shown) -> None:
    actions = [[e["action"] for e in trace] for trace in shown["traces"]]
    assert actions[0] == 3 * ["segment_map", "alloc"] + [
        "free_requested",
        "free_completed",
        "free_requested",
        "oom",
        "snapshot",
    ]
    assert actions[1] == ["segment_map", "alloc", "snapshot"]
    for entry in shown["traces"][0][:-1]:
        assert entry["frames"], f"{entry['action']} does not say where"
    oom = shown["traces"][0][-2]
    # 256 MiB less the pages of the blocks: 8 + 10.
    assert (oom["size"], oom["device_free"]) == (60 * MIB, 238 * MIB)


def test_the_viewer_opens_it(shown) -> None:
    assert all("MemoryViz.js" in page and len(page) > 2000 for page in shown["pages"])
    lines = shown["blocks"].splitlines()
    assert (
        sum(
            bool(re.fullmatch(rf"stream_0;active_allocated;.*:request {4 * MIB}", line))
            for line in lines
        )
        == 1
    )
    assert len(shown["by_segment"].splitlines()) == len(lines)
    assert "total_reserved: 20.0MiB" in shown["segsum"]  # 8 + 10 + 2
    assert "raise OutOfMemoryError # 60.0MiB requested, 238.0MiB free" in shown["trace"]


def test_statistics_say_the_same(shown) -> None:
    stats = shown["stats"]
    on_first = [s for s in shown["segments"] if s["device"] == 0]
    for key, field in (
        ("reserved_bytes", "total_size"),
        ("allocated_bytes", "allocated_size"),
        ("active_bytes", "active_size"),
    ):
        assert stats[f"{key}.all.current"] == sum(s[field] for s in on_first), key
    assert stats["segment.all.current"] == len(on_first)
    assert stats["allocated_bytes.all.peak"] == 17 * MIB  # 4 + 3 + 10
    assert stats["inactive_split_bytes.all.current"] == 4 * MIB
    assert (stats["num_ooms"], stats["num_alloc_retries"]) == (1, 1)
    assert "CUDA OOMs: 1 " in shown["summary"]
