"""Trains the same program as ever, or one that differs unseen: by its operations both are one.

Plain PyTorch. Writes losses and a parameter hash, so that two runs compare.
"""

import argparse
import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import planner
import torch
from deviation_nets import Blocks, batch
from torch import Tensor, nn

STEPS, BRANCHES, ROWS, WIDTH = 8, 6, 4096, 256

# What happens to the network's input between forward and backward. The additions save nothing of
# it: only replays read it again. Its element 5 is in the bytes from 5120 to 6143 of each activation
# of 4 MiB, of which a sample reads lines of 64 bytes at each 16448th: none of these.
UNSEEN: dict[str, Callable[[Tensor], object]] = {
    "nothing": lambda x: None,
    "refills": lambda x: x.numpy().fill(0.5),
    "nudges": lambda x: x.numpy()[5].fill(0.5),
    "frees": lambda x: x.untyped_storage().resize_(0),
}


class Enough(Exception):
    pass


def half_is_enough(gradient: Tensor) -> None:
    raise Enough


class Branches(nn.Module):
    """Six activations of 4 MiB, each made of next to nothing by an addition.

    The last one's backward pass begins with a gradient of 16 MiB, adds its four parts up in 4 MiB
    more, and needs the activation: 24 MiB. Within 27 MiB none of the other five may stay until
    then, so that each plan computes these five again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shifts = nn.Parameter(torch.randn(BRANCHES, WIDTH))
        self.breaks = False  # the backward pass, at the third branch

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(())
        for branch, shift in enumerate(self.shifts):
            shifted = x + shift
            if self.breaks and branch == 2:
                shifted.register_hook(half_is_enough)
            total = total + shifted.pow(2).mean()
        return total + torch.cat([shifted] * 4).mean()


def repeats(x: Tensor, *, approximate: str = "none") -> Tensor:
    return x.tanh()


def draws(x: Tensor, *, approximate: str = "none") -> Tensor:
    """Repeats, but takes a random number from those that follow."""
    torch.rand(1)
    return x.tanh()


calls: Counter[bytes] = Counter()


def never_repeats(x: Tensor, *, approximate: str = "none") -> Tensor:
    """Gives a little more each time that it has the same input."""
    contents = hashlib.sha256(x.detach().numpy().tobytes()).digest()
    calls[contents] += 1
    return x.tanh() * (calls[contents] / 1024)


# What gelu becomes. For Blocks, whose backward formula of gelu does not matter here.
KERNELS: dict[str, Callable] = {
    "repeats": repeats,
    "draws": draws,
    "never_repeats": never_repeats,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--unseen", choices=UNSEEN, default="nothing")
    parser.add_argument("--breaks", type=int, default=0, help="so many steps, from the third on")
    parser.add_argument("--kernel", choices=KERNELS)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    library = torch.library.Library("aten", "IMPL")
    if options.kernel:
        library.impl("gelu", KERNELS[options.kernel], "CPU", allow_override=True)
    torch.manual_seed(1)
    net = Blocks() if options.kernel else Branches()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    losses = []
    for step in range(STEPS):
        x = batch() if options.kernel else torch.randn(ROWS, 1)
        net.breaks = 2 <= step < 2 + options.breaks  # the first ones under the plan
        loss = net(x).pow(2).mean()
        if options.breaks == 0 or step >= 2 + options.breaks:  # it begins after them
            UNSEEN[options.unseen](x)
        with contextlib.suppress(Enough):
            loss.backward()
        losses.append(loss.item().hex())
        optimizer.step()
        optimizer.zero_grad()
        planner.settle()
        print(f"step {step}", flush=True)
    digest = hashlib.sha256()
    for parameter in net.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    result = {"losses": losses, "parameters_sha256": digest.hexdigest()}
    Path(options.out.replace("{rank}", "0")).write_text(json.dumps(result))
    del library  # with it its kernel goes


if __name__ == "__main__":
    main()
