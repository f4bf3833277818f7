"""Steps whose replays a verification step must judge one by one, or read what is written without a
word."""

import contextlib
from typing import ClassVar

import torch
from deviation_nets import ROWS, WIDTH, Normalised, Parts, Scales, Train, batch, chain
from torch import Tensor, nn


def reads_again_after_its_last_use(net: Scales, step: int) -> list[float]:
    """`gate` is unpacked for the product alone, whose backward comes first; a replay of tanh reads
    it after that."""
    x = batch()
    for _ in range(12):
        gate = x + net.main
        squashed = gate.tanh()
        x = squashed + gate * net.extra
    loss = x.mean()
    loss.backward()
    return [loss.item()]


class _Filled(torch.autograd.Function):
    """The identity. In backward, memory of the program's is taken or given back."""

    taken: ClassVar[list[Tensor]] = []

    @staticmethod
    def forward(ctx, x: Tensor, mib: int) -> Tensor:
        ctx.mib = mib
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        _Filled.taken = [torch.empty(ctx.mib << 20, dtype=torch.uint8)] if ctx.mib else []
        return gradient, None


def takes_memory_in_backward(first: int, last: int, mib: int) -> Train:
    """For one replay there is too little left then, though enough for the backward pass itself."""

    def train(net: Scales, step: int) -> list[float]:
        x = batch() * net.main
        for place in range(12):
            if place in (8, 9):
                x = _Filled.apply(x, mib if place == 9 and first <= step <= last else 0)
            x = torch.cat([x] * 6).view(6, ROWS, WIDTH).sum(0).sin()
        loss = x.mean()
        loss.backward()
        return [loss.item()]

    return train


ALL_ROWS = slice(None)
# Its bytes are those from 5120 to 6143 of 1 MiB, of which a sample reads 64 at each 4111th: none of
# these (fingerprint.cpp).
UNSAMPLED_ROW = slice(5, 6)


def reads_what_does_not_repeat(rows: slice) -> Train:
    """NumPy writes what a subtraction has read. Additions read its result, which nothing saves."""

    def train(net: Scales, step: int) -> list[float]:
        buffer = batch()
        x = buffer - net.main
        loss = chain(x, 8).mean()
        del x
        buffer.numpy()[rows] = 0.5
        loss.backward()
        return [loss.item()]

    return train


def saves_what_does_not_repeat(net: Scales, step: int) -> list[float]:
    """NumPy writes one row of what subtractions have read, whose results are saved.

    In the verification step these stay in memory: where it is short, what was saved first goes to
    the host.
    """
    batches = [batch() for _ in range(8)]
    buffer = batch()
    loss = torch.zeros(())
    while batches:
        loss = loss + (batches.pop() * net.extra).mean()
    for _ in range(5):
        loss = loss + (buffer - net.main).sin().mean()
    buffer.numpy()[UNSAMPLED_ROW] = 0.5
    loss.backward()
    return [loss.item()]


class _EnoughError(Exception):
    pass


def _half_is_enough(gradient: Tensor) -> None:
    raise _EnoughError


CHANGES = 6  # to another program, which is recorded then, and planned while the next step runs
ON_PLAN = CHANGES + 2
ENDS_MIDWAY = range(ON_PLAN, ON_PLAN + 3)


def _before_the_change(net: Scales) -> Tensor:
    return chain(torch.randn(ROWS // 2, WIDTH) * net.main, 24)


def grows_a_result_in_a_verification(net: Scales, step: int) -> list[float]:
    """Of what a subtraction gives, which dies before its replay, no print is left in that step."""
    if step < CHANGES:
        x = _before_the_change(net)
    else:
        buffer = batch()
        x = buffer - net.main
        if step == ON_PLAN:
            x.untyped_storage().resize_(2 * x.untyped_storage().nbytes())
        x = chain(x, 8)
    loss = x.mean()
    del x
    loss.backward()
    return [loss.item()]


def ends_backward_midway(net: Scales, step: int) -> list[float]:
    """An exception ends the backward pass of a few steps, before any replay of the longer chain,
    which no plan within the budget does without: its nodes are the older ones, and come last."""
    if step < CHANGES:
        loss = (_before_the_change(net) * net.extra).mean()
    else:
        longer = chain(batch() * net.main, 8)
        begin = batch() * net.main
        if step in ENDS_MIDWAY:
            begin.register_hook(_half_is_enough)
        loss = ((longer + chain(begin, 4)) * net.extra).mean()
        del longer, begin
    with contextlib.suppress(_EnoughError):
        loss.backward()
    return [loss.item()]


def measures_in_a_verification(net: Scales, step: int) -> list[float]:
    """What does not repeat comes after operations that no plan knows, in that step alone."""
    x = chain(batch() * net.main, 2)
    measured = (x * x).mean().item() if step == 2 else 0.0
    buffer = batch()
    x = buffer - x
    loss = chain(x, 8).mean()
    del x
    buffer.numpy()[:] = 0.5
    loss.backward()
    return [loss.item(), measured]


def moves_statistics(since: int, *, recorded: bool = False) -> Train:
    """A pass with running statistics, then, before its backward pass, one that moves them."""

    def train(net: Normalised, step: int) -> list[float]:
        net.eval()
        loss = net(batch()).pow(2).mean()
        if step >= since:
            net.train()
            with torch.set_grad_enabled(recorded):
                other = net(batch()).pow(2).mean()
            loss = loss + other
        loss.backward()
        norms = [part for part in net if isinstance(part, nn.BatchNorm1d)]
        return [loss.item(), *(norm.running_var.sum().item() for norm in norms)]

    return train


def trains_parts_of_one_buffer(net: Parts, step: int) -> list[float]:
    """All parameters are views of one tensor, each with a version counter of its own."""
    if step == 0:
        parameters = list(net.parameters())
        flat = nn.utils.parameters_to_vector(parameters).detach()
        nn.utils.vector_to_parameters(flat, parameters)
    loss = net(batch()).pow(2).mean()
    loss.backward()
    return [loss.item()]
