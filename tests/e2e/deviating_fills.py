"""A few bytes that are written unseen into what an operation gives that reads no tensor.

No sample of a fingerprint has them: of a mebibyte it has 64 bytes in each 4,112, and bytes 5,268 to
5,271 are between the second line and the third.
"""

from collections.abc import Callable

import torch
from deviation_nets import ROWS, WIDTH, Scales, Train, batch, late
from torch import Tensor

LAYERS = 10


def write(x: Tensor, number: float) -> None:
    x.detach().numpy()[5, 37] = number


def always(_step: int) -> bool:
    return True


def fills(when: Callable[[int], bool], rows_less: int = 0) -> Train:
    """Before the first operation that reads it. `rows_less`: than in the step before."""

    def train(net: Scales, step: int) -> list[float]:
        x = torch.randn(ROWS - rows_less * step, WIDTH)
        for _ in range(LAYERS):
            mask = torch.ones(x.shape)
            if when(step):
                write(mask, 0.5)
            x = (x * net.main * mask).sin()
        loss = x.mean()
        del x, mask
        loss.backward()
        return [loss.item()]

    return train


def fills_a_copy(net: Scales, step: int) -> list[float]:
    """Late steps write into copies, before an operation writes over them."""
    x = batch() * net.main
    for _ in range(LAYERS):
        copy = x.detach().clone()
        if late(step):
            write(copy, 0.5)
        x = (x * copy.mul_(2)).sin()
    loss = x.mean()
    del x, copy
    loss.backward()
    return [loss.item()]


def fills_what_was_read(net: Scales, step: int) -> list[float]:
    """After the operation that has saved it: PyTorch's backward reads that."""
    x = batch() * net.main
    for _ in range(LAYERS):
        mask = torch.ones(ROWS, WIDTH)
        x = (x * net.main * mask).sin()
        write(mask, 0.5)
    loss = x.mean()
    del x, mask
    loss.backward()
    return [loss.item()]


def fills_between_two_reads(net: Scales, step: int) -> list[float]:
    """Late steps write when one operation has read it, and before another one does."""
    x = batch() * net.main
    for _ in range(LAYERS):
        mask = torch.ones(ROWS, WIDTH)
        x = (x * net.main * mask).sin()
        if late(step):
            write(mask, 0.5)
        x = (x + mask * net.main).cos()
    loss = x.mean()
    del x, mask
    loss.backward()
    return [loss.item()]


def writes_weights_unseen(net: Scales, step: int) -> list[float]:
    """No step is like another. Late ones write a weight that replays read."""
    x = torch.randn(ROWS - 7 * step, WIDTH)
    for _ in range(LAYERS):
        x = (x * net.main).sin()
    loss = x.mean()
    del x
    if late(step):
        net.main.detach().numpy()[:] = 0.5
    loss.backward()
    return [loss.item()]
