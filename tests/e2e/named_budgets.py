"""A training whose base grows with its first steps: gradients, the optimizer's state, or none."""

import argparse
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

WIDTH, DEPTH, ROWS = 192, 6, 1024

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, 1e-3),
    "momentum": lambda p: torch.optim.SGD(p, 1e-3, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-3),
    "adafactor": lambda p: torch.optim.Adafactor(p, 1e-3),
    "lbfgs": lambda p: torch.optim.LBFGS(p, 1e-2, max_iter=4, history_size=10),
}
PLACES = ("before", "middle", "after", "never")  # of zero_grad()


def digest(net: nn.Module) -> str:
    sums = hashlib.sha256()
    for p in net.parameters():
        sums.update(p.detach().numpy().tobytes())
    return sums.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--optimizer", choices=OPTIMIZERS, required=True)
    parser.add_argument("--zero", choices=PLACES, required=True)
    parser.add_argument("--zeros", action="store_true", help="set_to_none=False")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--load", type=Path)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()

    rank = int(os.environ.get("RANK", "0"))
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Linear(64, WIDTH)]
    for _ in range(DEPTH):
        layers += [nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH), nn.Dropout(0.1)]
    net: nn.Module = nn.Sequential(*layers, nn.Linear(WIDTH, 10))
    optimizer = OPTIMIZERS[options.optimizer](list(net.parameters()))
    if options.load:
        states = torch.load(options.load)
        net.load_state_dict(states["net"])
        optimizer.load_state_dict(states["optimizer"])
        del states
    trained = net
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        torch.distributed.init_process_group("gloo")
        trained = nn.parallel.DistributedDataParallel(net)

    def zero(place: str) -> None:
        if options.zero == place:
            optimizer.zero_grad(set_to_none=not options.zeros)

    losses = []
    generator = torch.Generator().manual_seed(1 + rank)
    for _ in range(options.steps):
        x = torch.randn(ROWS, 64, generator=generator)
        y = torch.randint(0, 10, (ROWS,), generator=generator)

        def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
            zero("before")
            loss = nn.functional.cross_entropy(trained(x), y)
            zero("middle")
            loss.backward()
            return loss

        if options.optimizer == "lbfgs":
            loss = optimizer.step(closure)
        else:
            loss = closure()
            optimizer.step()
        zero("after")
        losses.append(loss.item().hex())
    if options.save:
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, options.save)
    Path(options.out.replace("{rank}", str(rank))).write_text(
        json.dumps({"losses": losses, "parameters": digest(net)})
    )
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
