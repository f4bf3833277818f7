"""Trains programs of the zoo as they are and writes what they computed, so that two runs compare.

python tests/e2e/zoo_train.py other_models.unet --out result.json
"""

import argparse
import hashlib
import json
import os
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import planner
import torch
import torch.distributed as dist
import zoo
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

FLIGHT_RECORDS = 20_000  # more collectives than any program issues


def contents(tensor: Tensor) -> bytes:
    """Of any layout and type; a distributed tensor's own part."""
    tensor = tensor.detach()
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if tensor.is_sparse:
        tensor = tensor.coalesce()
        return contents(tensor.indices()) + contents(tensor.values())
    tensor = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1)
    return tensor.view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def digest(value: Tensor | float | str) -> str:
    """A number readably and exactly, all else by its hash."""
    if isinstance(value, Tensor) and value.numel() == 1 and value.is_floating_point():
        value = value.item()
    if isinstance(value, Tensor):
        return hashlib.sha256(contents(value)).hexdigest()
    return value.hex() if isinstance(value, float) else str(value)


def checkpoint_each(kinds: tuple[type[nn.Module], ...], modules: Iterable[nn.Module]) -> None:
    """As people save memory without us: each block is computed again as a whole."""
    for module in modules:
        if isinstance(module, kinds):
            module.forward = partial(checkpoint, module.forward, use_reentrant=False)
        else:
            checkpoint_each(kinds, module.children())


def collectives() -> list[str]:
    """All that this rank has issued so far, in order, as PyTorch's flight recorder has them."""
    if not dist.is_initialized():
        return []
    from torch._C._distributed_c10d import _dump_fr_trace_json

    recorded = json.loads(_dump_fr_trace_json())
    return [f"{one['profiling_name']} {one['input_sizes']}" for one in recorded.get("entries", [])]


def train(name: str, steps: int | None, checkpointed: bool) -> dict:
    torch.manual_seed(1)
    issued = len(collectives())
    program = zoo.program(name)
    training = program.make()
    if checkpointed:
        checkpoint_each(program.blocks, training.modules)
    losses, seconds, states = [], [], []
    for step in range(steps or program.steps):
        started = time.perf_counter()
        values = training.step(step)
        seconds.append(time.perf_counter() - started)
        losses += [digest(value) for value in values]
        del values  # may hold as much as a step
        state = hashlib.sha256()
        for key, tensor in training.state():
            state.update(key.encode() + contents(tensor))
        states.append(state.hexdigest())
        planner.settle()
        print(f"{name}: step {step}", flush=True)
    return {
        "losses": losses,
        "states_sha256": states,
        "step_seconds": seconds,
        "collectives": collectives()[issued:],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="+", help="family.name")
    parser.add_argument("--steps", type=int, help="default: as many as the program needs")
    parser.add_argument("--checkpointed", action="store_true", help="each block, by PyTorch")
    parser.add_argument("--out")
    options = parser.parse_args()
    rank = os.environ.get("RANK")
    if rank is not None:
        os.environ["TORCH_FR_BUFFER_SIZE"] = str(FLIGHT_RECORDS)
        dist.init_process_group("gloo")
    results = {name: train(name, options.steps, options.checkpointed) for name in options.programs}
    if options.out:
        Path(options.out.replace("{rank}", rank or "0")).write_text(json.dumps(results))
    if rank is not None:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
