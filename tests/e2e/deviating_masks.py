"""Steps with masks that are kept as one bit a word, and what may happen to a mask meanwhile."""

import numpy as np
import torch
from deviation_nets import ROWS, Scales, batch, late
from torch import Tensor

MASKS = 8


def mask(like: Tensor, scale: Tensor) -> Tensor:
    """As dropout makes it: 0 where the draw says so, else the scale."""
    return torch.empty_like(like).bernoulli_(0.9).mul_(scale)


def masked(net: Scales, scale: Tensor, held: list[Tensor] | None = None) -> Tensor:
    """A loss. `held` gets one of the masks, which no other step's program keeps."""
    x = batch() * net.main
    for place in range(MASKS):
        drawn = mask(x, scale)
        x = x * drawn
        if held is not None and place == 3:
            held.append(drawn)
        del drawn
    return x.pow(2).mean()


SAME = torch.full((ROWS, 1), 1 / 0.9)


def drops_out(net: Scales, step: int) -> list[float]:
    loss = masked(net, SAME)
    loss.backward()
    return [loss.item()]


def scales_each_row(net: Scales, step: int) -> list[float]:
    """Late masks have as many kinds of words as they have rows."""
    loss = masked(net, torch.linspace(1, 2, ROWS).unsqueeze(1) if late(step) else SAME)
    loss.backward()
    return [loss.item()]


def one_other_word(net: Scales, step: int) -> list[float]:
    """Late masks have a third kind of word, in their last row alone."""
    scale = SAME.clone()
    if late(step):
        scale[-1] = 2
    loss = masked(net, scale)
    loss.backward()
    return [loss.item()]


def zeroes_a_mask(net: Scales, step: int) -> list[float | str]:
    held: list[Tensor] = []
    loss = masked(net, SAME, held if late(step) else None)
    for one in held:
        one.zero_()
    try:
        loss.backward()
    except RuntimeError as error:
        return [loss.item(), str(error).split("; expected version")[0]]
    return [loss.item()]


def zeroes_a_mask_unseen(net: Scales, step: int) -> list[float]:
    held: list[Tensor] = []
    loss = masked(net, SAME, held if late(step) else None)
    for one in held:
        one.data.zero_()
    loss.backward()
    return [loss.item()]


def zeroes_a_mask_through_numpy(net: Scales, step: int) -> list[float]:
    held: list[Tensor] = []
    loss = masked(net, SAME, held if late(step) else None)
    for one in held:
        np.copyto(one.numpy(), 0)
    loss.backward()
    return [loss.item()]


def sets_data_of_a_mask(net: Scales, step: int) -> list[float]:
    held: list[Tensor] = []
    loss = masked(net, SAME, held if late(step) else None)
    for one in held:
        one.data = torch.full_like(one, 3)
    loss.backward()
    return [loss.item()]


def runs_a_masked_graph_twice(net: Scales, step: int) -> list[float]:
    loss = masked(net, SAME)
    if late(step):
        loss.backward(retain_graph=True)
    loss.backward()
    return [loss.item()]


def always_runs_a_masked_graph_twice(net: Scales, step: int) -> list[float]:
    loss = masked(net, SAME)
    loss.backward(retain_graph=True)
    loss.backward()
    return [loss.item()]
