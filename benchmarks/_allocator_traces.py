"""Records each allocation and free of two training steps, in the process that trains.

PyTorch's profiler sees every one that goes through its allocator, with the bytes asked for.
"""

import argparse
import sys
from pathlib import Path

STEPS = 4  # the last two are kept: optimizers have their state by then
KEPT = 2


def record(name: str) -> str:
    """The steps in the form that benchmarks/allocator/allocation_trace.hpp describes."""
    import torch
    from _allocator_programs import PROGRAMS
    from torch.profiler import ProfilerActivity, profile, record_function

    torch.manual_seed(0)
    torch.set_num_threads(1)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step, _ = PROGRAMS[name]()
        for _ in range(STEPS):
            with record_function("kept step"):
                step()
    tree = profiler.profiler.kineto_results.experimental_event_tree()
    allocations, steps = [], []
    waiting = list(tree)
    while waiting:
        event = waiting.pop()
        waiting += event.children
        if event.name == "kept step":
            steps.append(event.start_time_ns)
        elif event.name == "[memory]":
            fields = event.extra_fields
            allocations.append((event.start_time_ns, event.id, fields.ptr, fields.alloc_size))
    return as_text(sorted(allocations), sorted(steps)[-KEPT:])


def as_text(allocations: list[tuple[int, int, int, int]], steps: list[int]) -> str:
    live: dict[int, tuple[int, int]] = {}  # address: number, bytes
    lines: list[str] = []
    begun = 0
    for number, (at, _, address, size) in enumerate(allocations):
        while begun < len(steps) and at >= steps[begun]:
            if begun == 0:  # of what came before, only what is still there
                lines = [f"alloc {block} {size}" for block, size in sorted(live.values())]
            lines.append("step")
            begun += 1
        if size > 0:
            if address in live:
                raise RuntimeError(f"two blocks at {address:#x}")
            live[address] = number, size
            lines.append(f"alloc {number} {size}")
        elif size < 0 and address in live:  # else from before the recording
            lines.append(f"free {live.pop(address)[0]}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    text = record(arguments.name)
    unfinished = arguments.out.with_suffix(".unfinished")
    unfinished.write_text(text)
    unfinished.rename(arguments.out)


if __name__ == "__main__":
    sys.exit(main())
