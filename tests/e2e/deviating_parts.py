"""Steps that write parts of a storage in place, as the gates of recurrent cells are written."""

from collections.abc import Callable

import torch
from deviation_nets import ROWS, WIDTH, Scales, batch, late
from torch import Tensor

HALF = WIDTH // 2

Rewrite = Callable[[Tensor], None]


def gates(x: Tensor, net: Scales, rewrite: Rewrite) -> Tensor:
    """What sigmoid_ saves lies beside what mul_ and tanh_ write; mul_ saves what it writes over."""
    both = x * net.main
    left, right = both.unsafe_chunk(2, 1)
    left.sigmoid_()
    right.mul_(net.extra[:HALF]).tanh_()
    rewrite(both.data)
    return torch.cat([left * right, right.sin()], 1)


def parts_of_more_rows(net: Scales, step: int) -> list[float]:
    """All fits until then, so that no operation of the first large step is recorded."""
    x = torch.randn(ROWS if late(step) else ROWS // 16, WIDTH)
    for _ in range(6):
        x = gates(x, net, lambda both: None)
    loss = x.pow(2).mean()
    del x
    loss.backward()
    return [loss.item()]


def writes_a_saved_part_through_numpy(net: Scales, step: int) -> list[float]:
    """The other part is written after it was saved, by what saves nothing."""
    x = batch()
    for place in range(6):
        both = x * net.main if place == 0 else x + net.main
        left, right = both.unsafe_chunk(2, 1)
        left.sigmoid_()
        right.mul_(0.5)
        x = torch.cat([left, right], 1)
        if late(step) and place == 2:
            both.detach().numpy()[:, :HALF] = 0.25
        del both, left, right
    loss = x.mean()
    del x
    loss.backward()
    return [loss.item()]


def writes_parts(rewrite: Rewrite) -> Callable[[Scales, int], list[float]]:
    """In late steps it rewrites, unseen by autograd, what has been saved."""

    def train(net: Scales, step: int) -> list[float]:
        x = batch()
        for place in range(4):
            x = gates(x, net, rewrite if late(step) and place == 1 else lambda both: None)
        loss = x.pow(2).mean()
        loss.backward()
        return [loss.item()]

    return train


def halves_a_corner(both: Tensor) -> None:
    both[: ROWS // 2, :8].mul_(0.5)


def halves_what_lies_beside(both: Tensor) -> None:
    both[ROWS // 2 :, HALF:].mul_(0.5)


def halves_a_column_of_each(both: Tensor) -> None:
    both[:, ::HALF].mul_(0.5)
