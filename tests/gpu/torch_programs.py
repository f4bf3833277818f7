"""Small programs on a GPU, each in a process of its own: with torch's allocator or with ours.

python torch_programs.py NAME    prints one line of JSON
"""

import json
import sys
import tempfile
from pathlib import Path

import torch

MIB = 1 << 20


def stats() -> dict:
    """Keys of memory_stats(), and what a few blocks make of them."""
    blocks = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (1000, 3 * MIB)]
    now = torch.cuda.memory_stats()
    del blocks
    after = torch.cuda.memory_stats()
    torch.cuda.empty_cache()
    return {
        "keys": sorted(now),
        "allocated": now["allocated_bytes.all.current"],
        "requested": now["requested_bytes.all.current"],
        "allocated_after": after["allocated_bytes.all.current"],
        "peak": after["allocated_bytes.all.peak"],
        "reserved_at_end": torch.cuda.memory_reserved(),
        "summary": torch.cuda.memory_summary().startswith("|"),
    }


def record_stream() -> dict:
    """A side stream reads a block late; who gets its memory next must not show."""
    side = torch.cuda.Stream()
    wrong = 0
    for value in range(30):
        block = torch.full((4 * MIB,), value, dtype=torch.int32, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(5_000_000)
            copy = block.clone()
        block.record_stream(side)
        del block
        other = torch.full((4 * MIB,), -1, dtype=torch.int32, device="cuda")
        side.synchronize()
        wrong += int((copy != value).sum())
        del other, copy
    return {"wrong": wrong}


def graph() -> dict:
    """Replays are right whatever is allocated between them: a graph's memory is its own."""
    x = torch.zeros(1024, 1024, device="cuda")

    def step() -> torch.Tensor:
        hidden = torch.relu(x + 1) * 3
        return (hidden @ hidden).sum(dim=1)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        y = step()
    wrong = 0
    kept = []
    for value in range(10):
        x.fill_(value)
        kept.append(torch.full((1024, 1024), float("nan"), device="cuda"))
        captured.replay()
        wrong += int((y != step()).sum())
        wrong += int((~torch.isnan(kept[-1])).sum())
        if value % 3 == 0:
            kept.clear()
            torch.cuda.empty_cache()
    del captured, y
    kept.clear()
    torch.cuda.empty_cache()
    return {"wrong": wrong}


def graph_thrown_away() -> dict:
    """A graph is let go of while its replay still writes: nobody has that memory yet."""
    stream = torch.cuda.Stream()
    wrong = 0
    for value in range(10):
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, stream=stream):
            torch.cuda._sleep(20_000_000)
            torch.full((MIB,), -1, dtype=torch.int32, device="cuda")
        captured.replay()  # on another stream than it was captured on
        del captured
        own = torch.cuda.MemPool()
        with torch.cuda.stream(stream), torch.cuda.use_mem_pool(own):
            block = torch.full((MIB,), value, dtype=torch.int32, device="cuda")
        torch.cuda.synchronize()
        wrong += int((block != value).sum())
        del block, own
    return {"wrong": wrong}


def pool() -> dict:
    """torch.cuda.MemPool: its blocks are its own."""
    own = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(own):
        inside = torch.ones(4 * MIB, dtype=torch.uint8, device="cuda")
    address = inside.data_ptr()
    del inside
    outside = [torch.ones(4 * MIB, dtype=torch.uint8, device="cuda") for _ in range(8)]
    shared = sum(block.data_ptr() == address for block in outside)
    uses = own.use_count()
    return {"shared": shared, "uses": uses}


def fill_up() -> dict:
    """Takes 64 MiB at a time until memory is out."""
    free, total = torch.cuda.mem_get_info()
    kept, message = [], ""
    try:
        while len(kept) < 64:  # 4 GiB at most
            kept.append(torch.zeros(64 * MIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as error:
        message = str(error)
    torch.cuda.synchronize()
    now, _ = torch.cuda.mem_get_info()
    result = {
        "blocks": len(kept),
        "used": total - now,
        "used_before": total - free,
        "ooms": torch.cuda.memory_stats()["num_ooms"],
        "message": message,
    }
    # Goes on after the error. Libraries may have taken more of the device: three blocks give way.
    del kept[-3:]
    torch.zeros(32 * MIB, dtype=torch.uint8, device="cuda")
    return result


def fraction() -> dict:
    """A fraction of 1 GiB of the device."""
    _, total = torch.cuda.mem_get_info()
    torch.cuda.set_per_process_memory_fraction((1 << 30) / total)
    return fill_up()


def history() -> dict:
    """The history, and that torch's viewer opens it."""
    torch.cuda.memory._record_memory_history(max_entries=10000)
    kept = [torch.ones(size * MIB, device="cuda") for size in (1, 2, 3)]
    del kept[1]
    snapshot = torch.cuda.memory._snapshot()
    actions = [entry["action"] for entry in snapshot["device_traces"][0]]
    from torch.cuda import _memory_viz

    pages = [_memory_viz.trace_plot(snapshot), _memory_viz.segment_plot(snapshot)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.pickle"
        torch.cuda.memory._dump_snapshot(str(path))
        dumped = path.stat().st_size
    segments = snapshot["segments"]
    sums = [sum(b["size"] for b in s["blocks"]) == s["total_size"] for s in segments]
    frames = [b["frames"] for s in segments for b in s["blocks"] if b["state"] != "inactive"]
    return {
        "actions": sorted(set(actions)),
        "segments_add_up": all(sums),
        "frames": all(len(f) > 0 for f in frames),
        "pages": [len(page) for page in pages],
        "dumped": dumped,
    }


def train() -> dict:
    """Deterministic training steps: the bits of the losses and of the parameters."""
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(3)
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.1, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(10):
        x = torch.randn(16, 128, 256, device="cuda")
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
    total = sum(p.double().sum() for p in model.parameters()).item().hex()
    return {"losses": losses, "parameters": total}


def _child(queue, back) -> None:
    shared = queue.get()
    back.put(int(shared.sum()))
    torch.cuda._sleep(200_000_000)
    shared.fill_(2)
    del shared  # before the kernels have run
    torch.cuda.synchronize()
    back.put("done")


def processes() -> dict:
    """A tensor that another process reads and writes."""
    import torch.multiprocessing as mp

    context = mp.get_context("spawn")
    queue, back = context.Queue(), context.Queue()
    child = context.Process(target=_child, args=(queue, back))
    child.start()
    block = torch.ones(5 * MIB, dtype=torch.int32, device="cuda")
    queue.put(block)
    read = back.get(timeout=120)
    back.get(timeout=120)
    child.join(120)
    return {"read": read, "written": int((block == 2).sum())}


PROGRAMS = {
    f.__name__: f
    for f in (
        stats,
        record_stream,
        graph,
        graph_thrown_away,
        pool,
        fill_up,
        fraction,
        history,
        train,
        processes,
    )
}

if __name__ == "__main__":
    result = PROGRAMS[sys.argv[1]]()
    result["backend"] = torch.cuda.memory.get_allocator_backend()
    print(json.dumps(result))
