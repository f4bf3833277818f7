"""Torch's CUDA allocator and Ebbtide's, side by side: time of a block, and of a training step.

python benchmarks/gpu_allocator.py [--out FILE.json]     needs a GPU; else says so and ends
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

KIND = "_EBBTIDE_BENCH_KIND"  # set in the processes that measure


def seconds_of_a_block(torch, sizes: list[int], live: int, count: int) -> float:
    """Allocates and frees in random order, `live` blocks at a time, in a warm cache."""
    draw = random.Random(5)
    blocks = [
        torch.empty(draw.choice(sizes), dtype=torch.uint8, device="cuda") for _ in range(live)
    ]
    for warm in (True, False):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(count if not warm else live * 4):
            at = draw.randrange(live)
            blocks[at] = None
            blocks[at] = torch.empty(draw.choice(sizes), dtype=torch.uint8, device="cuda")
        spent = time.perf_counter() - begin
    return spent / count


def training(torch) -> dict:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 8, enable_nested_tensor=False).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    seconds = []
    lengths = random.Random(3)
    for step in range(60):
        length = 128 if step < 30 else lengths.randrange(64, 512)  # later: each of another length
        x = torch.randn(16, length, 1024, device="cuda")
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    stats = torch.cuda.memory_stats()
    fixed, changing = sorted(seconds[10:30]), sorted(seconds[30:])
    return {
        "step_ms": 1e3 * fixed[len(fixed) // 2],
        "changing_length_step_ms": 1e3 * changing[len(changing) // 2],
        "allocated_peak_bytes": stats["allocated_bytes.all.peak"],
        "reserved_peak_bytes": stats["reserved_bytes.all.peak"],
        "device_calls": stats["num_device_alloc"] + stats["num_device_free"],
    }


def measure() -> dict:
    import torch

    kib, mib = 1 << 10, 1 << 20
    return {
        "backend": torch.cuda.memory.get_allocator_backend(),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "small_block_us": 1e6
        * seconds_of_a_block(torch, [512, kib, 4 * kib, 64 * kib], 1000, 100_000),
        "large_block_us": 1e6
        * seconds_of_a_block(torch, [2 * mib, 5 * mib, 16 * mib, 48 * mib], 100, 50_000),
        "training": training(torch),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if KIND in os.environ:
        print(json.dumps(measure()))
        return
    import torch

    if not torch.cuda.is_available():
        print("gpu_allocator: no GPU here, nothing is measured")
        if options.out:
            options.out.write_text(json.dumps({"skipped": "no GPU"}))
        return
    kinds = {
        "torch": {},
        "ebbtide": {"EBBTIDE": "1"},
        "ebbtide, 16 GiB": {"EBBTIDE_BUDGET": "16GiB"},
    }
    results = {}
    for kind, variables in kinds.items():
        environment = {k: v for k, v in os.environ.items() if not k.startswith("EBBTIDE")}
        environment |= {KIND: kind} | variables
        done = subprocess.run(
            (sys.executable, __file__), env=environment, capture_output=True, text=True, timeout=280
        )
        if done.returncode != 0:
            results[kind] = {"failed": done.stderr[-2000:]}
            print(f"{kind}: failed\n{done.stderr[-2000:]}")
            continue
        results[kind] = json.loads(done.stdout.strip().splitlines()[-1])
        print(f"{kind}: {json.dumps(results[kind])}", flush=True)
    if options.out:
        options.out.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
