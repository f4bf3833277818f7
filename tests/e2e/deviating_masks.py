"""Steps with masks that are kept as one bit a word, and what may happen to a mask meanwhile."""

from collections.abc import Callable

import numpy as np
import torch
from deviation_nets import ROWS, Scales, Train, batch, chain, late
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


def writes_to_a_mask(write: Callable[[Tensor], None]) -> Train:
    """Late, between forward and backward."""

    def train(net: Scales, step: int) -> list[float]:
        held: list[Tensor] = []
        loss = masked(net, SAME, held if late(step) else None)
        for one in held:
            write(one)
        loss.backward()
        return [loss.item()]

    return train


def set_data(one: Tensor) -> None:
    one.data = torch.full_like(one, 3)


zeroes_a_mask_unseen = writes_to_a_mask(lambda one: one.data.zero_())
zeroes_a_mask_through_numpy = writes_to_a_mask(lambda one: np.copyto(one.numpy(), 0))
sets_data_of_a_mask = writes_to_a_mask(set_data)


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


def shares_a_mask_between_graphs(net: Scales, step: int) -> list[float]:
    """Late steps keep the second graph, which reads the mask last, and run it twice."""
    data = batch()
    drawn = mask(data, SAME)
    first = chain(data * net.main * drawn, 8).mean()
    second = chain(data * net.extra * drawn, 4).mean()
    del drawn
    first.backward()
    if late(step):
        second.backward(retain_graph=True)
    second.backward()
    return [first.item(), second.item()]


class ReadTwice(torch.autograd.Function):
    """Multiplies by a mask. Its backward may read the mask again after another backward pass."""

    again = False

    @staticmethod
    def forward(ctx, x: Tensor, drawn: Tensor) -> Tensor:
        ctx.save_for_backward(drawn)
        return x * drawn

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        (drawn,) = ctx.saved_tensors
        gradient = gradient * drawn
        del drawn
        if ReadTwice.again:
            with torch.enable_grad():
                other = torch.ones(3, requires_grad=True)
                torch.autograd.grad(other.sin().sum(), other)
            (drawn,) = ctx.saved_tensors
            gradient = gradient * drawn
        return gradient, None


def reads_a_mask_again(net: Scales, step: int) -> list[float]:
    x = batch() * net.main
    for _ in range(MASKS):
        x = ReadTwice.apply(x, mask(x, SAME)).sin()
    loss = x.mean()
    del x
    ReadTwice.again = late(step)
    loss.backward()
    return [loss.item()]


def adds_a_mask_everywhere(net: Scales, step: int) -> list[float]:
    """A late node reads the mask in backward, then replays of sums with it do."""
    data = batch()
    drawn = mask(data, SAME)
    x = data * net.main
    for _ in range(10):
        x = (x + drawn).sin()
    loss = (x * net.extra * drawn).mean()
    del x, drawn
    loss.backward()
    return [loss.item()]
