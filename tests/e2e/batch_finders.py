"""Trains with the largest batch that fits, as batch-size finders do, or skips what does not fit.

batch_finders.py find --rows 16384    halves the batch at each error, until one trains
                                      --normed: no base tells how large a batch is
                                      --tenth: takes a tenth off, as accelerate's does
batch_finders.py grow --rows 512      doubles it up to an error; trains with the one before
batch_finders.py skip --large 3 9     goes on with the next batch where a large one does not fit
"""

import argparse
import gc
import hashlib
import json
from pathlib import Path

import numpy as np
import planner
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

DEPTH, CLASSES, STEPS = 6, 10, 6
NARROW, WIDE = 16, 256  # where batches are skipped: a large one has gone some way before it fails
ROWS, TIMES, BATCHES = 1024, 32, 14


def names_out_of_memory(text: str) -> bool:
    """As accelerate does since 1.0."""
    return " out of memory." in text or "DefaultCPUAllocator: can't allocate memory" in text


def names_cuda_or_the_allocator(text: str) -> bool:
    """As Lightning's scaler does, but for what cuDNN says."""
    cuda = "CUDA" in text and "out of memory" in text
    return cuda or "DefaultCPUAllocator: can't allocate memory" in text


def names_the_allocator(text: str) -> bool:
    """As the Trainer's auto_find_batch_size did before it took accelerate's rule."""
    return any(
        words in text
        for words in ("CUDA out of memory.", "DefaultCPUAllocator: can't allocate memory")
    )


RULES = {
    "accelerate": names_out_of_memory,
    "lightning": names_cuda_or_the_allocator,
    "trainer": names_the_allocator,
}


def recognised(error: Exception) -> dict[str, bool]:
    """By rule: all of them ask for a RuntimeError whose only argument is its text."""
    usual = isinstance(error, RuntimeError) and len(error.args) == 1
    return {name: usual and rule(error.args[0]) for name, rule in RULES.items()}


def layers(width: int) -> list[nn.Module]:
    return [layer for _ in range(DEPTH) for layer in (nn.Linear(width, width), nn.GELU())]


def batch_of(rows: int, width: int, number: int) -> tuple[Tensor, Tensor]:
    """Always the same, whatever came before it."""
    generator = torch.Generator().manual_seed(number)
    x = torch.randn(rows, width, generator=generator)
    return x, torch.randint(0, CLASSES, (rows,), generator=generator)


def train(rows: int, losses: list[str]) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(*layers(512), nn.Linear(512, CLASSES))
    optimizer = torch.optim.AdamW(net.parameters())
    for number in range(STEPS):
        x, y = batch_of(rows, 512, number)
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())


def train_normed(rows: int, losses: list[str]) -> None:
    """The first op reads a parameter alone, and the batch is NumPy's."""
    torch.manual_seed(0)
    net = nn.Sequential(
        *[m for _ in range(3) for m in (weight_norm(nn.Linear(256, 256)), nn.GELU())]
    )
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for number in range(STEPS):
        x = np.random.default_rng(number).standard_normal((rows, 256), np.float32)
        loss = net(torch.from_numpy(x)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())


def find(rows: int, normed: bool, tenth: bool) -> dict:
    """The rows that trained, their losses, and what was raised before."""
    errors = []
    while True:
        losses: list[str] = []
        try:
            (train_normed if normed else train)(rows, losses)
            return {"rows": rows, "losses": losses, "errors": errors}
        except Exception as error:
            rules = recognised(error)
            errors.append({"rows": rows, "steps": len(losses), "text": str(error), "rules": rules})
            if rows == 1 or not all(rules.values()):
                raise
        gc.collect()
        rows = rows * 9 // 10 if tenth else rows // 2


def grow(rows: int) -> dict:
    """As find()."""
    errors: list[dict] = []
    while not errors:
        losses: list[str] = []
        try:
            train(rows, losses)
            rows *= 2
        except Exception as error:
            rules = recognised(error)
            errors.append({"rows": rows, "steps": len(losses), "text": str(error), "rules": rules})
            if not all(rules.values()):
                raise
    gc.collect()
    losses = []
    train(rows // 2, losses)
    return {"rows": rows // 2, "losses": losses, "errors": errors}


def skip(large: list[int], left_out: list[int]) -> dict:
    """Losses by batch; those that are left out are not tried."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(NARROW, NARROW), nn.GELU(), nn.Linear(NARROW, WIDE), *layers(WIDE)
    )
    optimizer = torch.optim.AdamW(net.parameters())
    losses, skipped = {}, []
    for number in range(BATCHES):
        if number in left_out:
            continue
        try:
            x, y = batch_of(ROWS * (TIMES if number in large else 1), NARROW, number)
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
        except RuntimeError as error:
            skipped.append({"batch": number, "text": str(error)})
            optimizer.zero_grad()
            continue
        optimizer.step()
        optimizer.zero_grad()
        losses[number] = loss.item().hex()
        planner.settle()
    sums = hashlib.sha256()
    for parameter in net.parameters():
        sums.update(parameter.detach().numpy().tobytes())
    return {"losses": losses, "parameters": sums.hexdigest(), "skipped": skipped}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=("find", "grow", "skip"))
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--normed", action="store_true")
    parser.add_argument("--tenth", action="store_true")
    parser.add_argument("--large", type=int, nargs="*", default=[])
    parser.add_argument("--left-out", type=int, nargs="*", default=[])
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    if options.mode == "find":
        result = find(options.rows, options.normed, options.tenth)
    elif options.mode == "grow":
        result = grow(options.rows)
    else:
        result = skip(options.large, options.left_out)
    Path(options.out.replace("{rank}", "0")).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
