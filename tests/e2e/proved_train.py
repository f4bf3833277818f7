"""A small training for `ebbtide prove`, in a variant:

plain      repeats itself; one process, a rank of torchrun, or two by mp.spawn (--spawn)
short      the same, and ends after six updates
unseeded   its third update is another one in each run
told       under a budget its fourth update is another one, on the last rank alone
by_hand    updates its parameters without an optimizer
fails      raises at its third update
"""

import argparse
import os

import planner
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

RANKS = 2
WIDTH, ROWS, BLOCKS = 256, 1024, 8  # of an activation: 1 MiB


def network() -> nn.Module:
    torch.manual_seed(0)
    layers = [
        layer
        for _ in range(BLOCKS)
        for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH))
    ]
    return nn.Sequential(*layers)


def disturb(variant: str, update: int, rank: int, ranks: int, model: nn.Module) -> None:
    if variant == "fails" and update == 3:
        raise RuntimeError("deliberate")
    unseeded = variant == "unseeded" and update == 3
    told = variant == "told" and update == 4 and rank == ranks - 1
    with torch.no_grad():
        if unseeded:
            next(model.parameters()).add_(int.from_bytes(os.urandom(2)) + 1)
        if told and "EBBTIDE_BUDGET" in os.environ:
            next(model.parameters()).add_(1)


def train(variant: str, rank: int = 0, ranks: int = 1) -> None:
    own = network()
    model = nn.parallel.DistributedDataParallel(own) if ranks > 1 else own
    optimizer = torch.optim.AdamW(own.parameters())
    inputs = torch.Generator().manual_seed(rank)
    for update in range(1, 7 if variant == "short" else 1000):
        x = torch.randn(ROWS, WIDTH, generator=inputs)
        model(x).square().mean().backward()
        disturb(variant, update, rank, ranks, own)
        if variant == "by_hand":
            with torch.no_grad():
                for parameter in own.parameters():
                    parameter -= 1e-3 * parameter.grad
            if update == 6:
                return
        else:
            optimizer.step()
        own.zero_grad()
        planner.settle()


def work(rank: int, variant: str) -> None:
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    train(variant, rank, RANKS)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("variant")
    parser.add_argument("--spawn", metavar="PORT")
    asked = parser.parse_args()
    print(*sorted(name for name in os.environ if name.startswith("EBBTIDE")), flush=True)
    if asked.spawn:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=asked.spawn)
        mp.spawn(work, (asked.variant,), RANKS)
    elif "RANK" in os.environ:
        work(int(os.environ["RANK"]), asked.variant)
    else:
        train(asked.variant)


if __name__ == "__main__":
    main()
