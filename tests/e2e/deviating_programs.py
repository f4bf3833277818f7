"""Steps that run another program than the planned one, or end in another way."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from deviating_contents import noisy
from deviation_nets import (
    ROWS,
    STEADY,
    WIDTH,
    Blocks,
    MoreBlocks,
    Scales,
    Train,
    batch,
    chain,
    late,
)
from torch import Tensor

# --- losses that are not trained in every step ----------------------------------------------------


def skips_the_auxiliary_loss(*skipped: int) -> Train:
    """The auxiliary loss reads padded batches, allocated by torch and filled through numpy.

    The first plan is of step 0, made during step 1 and tried in step 2: which then skips a part.
    """

    def train(net: Scales, step: int) -> list[float]:
        main = batch() * net.main
        numbers = np.random.default_rng(step)
        auxiliary = torch.zeros(())
        for _ in range(6):
            padded = torch.zeros(ROWS, WIDTH)
            padded.numpy()[:] = numbers.standard_normal((ROWS, WIDTH), dtype=np.float32)
            auxiliary = auxiliary + (padded * net.extra).mean()
            del padded
        loss = chain(main, 4).mean()
        loss.backward()
        if step not in skipped:
            auxiliary.backward()
        return [loss.item(), auxiliary.item()]

    return train


def trains_now_and_then(net: Scales, step: int) -> list[float]:
    x = batch()
    auxiliary = chain(x * net.extra, 3).mean()
    loss = chain(x * net.main, 8).mean()
    loss.backward()
    if step % 6 == 5:
        auxiliary.backward()
    return [loss.item(), auxiliary.item()]


# --- calls that end or are made in another way ----------------------------------------------------


def fails_in_place(net: Scales, step: int) -> list[float]:
    x = batch() * net.main
    with contextlib.suppress(RuntimeError):  # the shapes do not match: x stays as it is
        x.add_(torch.ones(3, 5))
    loss = chain(x, 8).mean()
    del x
    loss.backward()
    return [loss.item()]


def calls_functional_transforms(net: Scales, step: int) -> list[float]:
    """They call operations boxed, with values of their own on the stack beneath the arguments."""
    point = torch.ones(WIDTH)
    slope = torch.func.grad(lambda p: (batch() * p).pow(2).mean())(point)
    loss = chain(batch() * net.main, 8).mean() + (net.extra * slope).sum()
    loss.backward()
    return [loss.item()]


# --- a step of another program --------------------------------------------------------------------


def has_one_more_operation_once(net: MoreBlocks, step: int) -> list[float]:
    x = batch()
    loss = net(x * net[0].norm.weight if step == STEADY else x).pow(2).mean()
    del x
    loss.backward()
    return [loss.item()]


def alternates(net: Blocks, step: int) -> list[float]:
    """Two programs in turn that begin alike."""
    x = net(batch())
    loss = (x.tanh() if step % 2 else x).pow(2).mean()
    del x
    loss.backward()
    return [loss.item()]


def sets_data(net: Scales, step: int) -> list[float]:
    """Plain gradient descent by `.data =`: no operation writes a parameter."""
    loss = chain(batch() * net.main, 8).mean()
    loss.backward()
    net.main.data = net.main.data - 0.1 * net.main.grad
    net.main.grad = None
    return [loss.item()]


def sets_data_of_all(net: Blocks, step: int) -> list[float]:
    loss = net(batch()).pow(2).mean()
    loss.backward()
    for parameter in net.parameters():
        parameter.data = parameter.data - 0.1 * parameter.grad
        parameter.grad = None
    return [loss.item()]


def splits_otherwise(net: Scales, step: int) -> list[float]:
    """An operator of the planned name and inputs makes fewer results: a number tells how many."""
    x = batch() * net.main
    for block in range(6):
        x = (x + net.extra).sin()
        parts = torch.split_copy(x, ROWS // 2 if late(step) and block == 3 else ROWS // 16)
        x = torch.cat(list(parts))
        del parts
    loss = x.mean()
    del x
    loss.backward()
    return [loss.item()]


def asks_for_what_was_saved(net: Scales, step: int) -> list[float]:
    """Before its own node reads it."""
    y = chain(batch() * net.main, 8).exp()
    loss = y.sum()
    saved = y.grad_fn._saved_result.mean().item()
    del y
    loss.backward()
    return [loss.item(), saved]


def is_large_now_and_then(net: Blocks, step: int) -> list[float]:
    """Five steps that fit for each one that does not."""
    loss = net(torch.randn(ROWS if step % 6 == 5 else ROWS // 16, WIDTH)).pow(2).mean()
    loss.backward()
    return [loss.item()]


def is_large_rarely(net: Scales, step: int) -> list[float]:
    """Two large steps that are more than a hundred apart from the next one, then some more."""
    large = step in (12, 132) or (step >= 252 and step % 2 == 0)
    x = torch.randn(ROWS if large else ROWS // 16, WIDTH)
    for _ in range(12):
        x = (x + net.main).sin()
    loss = x.mean()
    del x
    loss.backward()
    return [loss.item()]


def writes_beside_a_kept_graph(net: Scales, step: int) -> list[float]:
    """Late steps record a write to what the last graph replays from, then run that graph again."""
    _SHARED.copy_(batch())
    following = batch()
    x = _SHARED + net.main
    loss = chain(x, 8).mean()
    del x
    if not late(step):
        loss.backward()
        return [loss.item()]
    (loss * 1).backward(retain_graph=True)
    net.main.data -= 0.01 * net.main.grad
    net.main.grad = None
    other = (following * net.extra).sin().mean()
    _SHARED.copy_(following)
    other.backward()
    loss.backward()
    return [loss.item(), other.item()]


def _head(x: Tensor, scale: Tensor) -> Tensor:
    for _ in range(8):
        x = (x + scale).sigmoid()
    return x.mean()


def runs_one_head_again(net: Scales, step: int) -> list[float]:
    """Two heads on what nothing has saved. The graph of the first is kept, and run once more in
    late steps, when the second has been run for the last time.
    """
    x = batch()
    for _ in range(2):
        x = (x + net.main).sigmoid()
    x = x @ (torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(1)) / 16)
    first, second = _head(x, net.extra), _head(x, net.extra * 0.5)
    del x
    first.backward(retain_graph=True)
    second.backward()
    again = 0.0
    if late(step):
        (gradient,) = torch.autograd.grad(first, net.extra)
        again = gradient.sum().item()
    return [first.item(), second.item(), again]


def runs_one_head_twice(net: Scales, step: int) -> list[float]:
    """Late steps keep the second head, and run it again when the first one has let go of what the
    second's factors are computed from."""
    first, second = net.main.sum(), net.extra.sum()
    for _ in range(8):
        dear = (batch().abs() + 1).lgamma()
        first = first + (dear * net.main).mean()
        second = second + ((dear + 0.5) * net.extra).mean()
    del dear
    second.backward(retain_graph=late(step))
    first.backward()
    if late(step):
        second.backward()
    return [first.item(), second.item()]


def runs_one_head_without_the_other(net: Scales, step: int) -> list[float]:
    """Late steps keep both heads, and let go of the first: from what it saved, which nothing makes
    again, the second's factors are computed when that one is run again."""
    first, second = net.main.sum(), net.extra.sum()
    for _ in range(8):
        kept = noisy(batch())
        first = first + (kept * net.main).mean()
        second = second + ((kept + 0.5) * net.extra).mean()
    del kept
    losses = [first.item(), second.item()]
    second.backward(retain_graph=late(step))
    first.backward(retain_graph=late(step))
    del first
    if late(step):
        second.backward()
    return losses


def every_other_step_fits(net: Blocks, step: int) -> list[float]:
    loss = net(torch.randn(ROWS // 16 if step % 2 else ROWS, WIDTH)).pow(2).mean()
    loss.backward()
    return [loss.item()]


def comes_back_after_steps_that_fit(net: Scales, step: int) -> list[float]:
    """The guess is a program without a plan; the first operation does not save what it reads."""
    fits = STEADY <= step < STEADY + 3
    x = torch.randn(ROWS // 32 if fits else ROWS, 1) + net.main
    for _ in range(12):
        x = (x + net.extra).sin()
    loss = x.pow(2).mean()
    del x
    loss.backward()
    return [loss.item()]


def three_in_turn(net: Blocks, step: int) -> list[float]:
    """Each alone until it has a plan, then in turn; the first two begin alike."""
    turn = step // 4 if step < STEADY else step % 3
    x = net(torch.randn(ROWS - 64 if turn == 2 else ROWS, WIDTH))
    loss = (x.tanh() if turn == 1 else x).pow(2).mean()
    del x
    loss.backward()
    return [loss.item()]


def refills_what_two_programs_read(net: Scales, step: int) -> list[float]:
    """The verification step of the one finds out that its first operation does not repeat, while
    the other, which begins with the same, is being planned."""
    _SHARED.numpy()[:] = batch().numpy()
    following = batch().numpy()
    x = _SHARED
    for _ in range(8):
        x = (x + net.main).sin()
    if step % 2:
        x = (x * net.extra).tanh().exp()
    loss = x.mean()
    del x
    _SHARED.numpy()[:] = following
    loss.backward()
    return [loss.item()]


_SHARED = torch.zeros(ROWS, WIDTH)
_WORKER = ThreadPoolExecutor(1)
_REST_S = 2.2  # after 2 s another thread's step may be recorded in place of the main thread's last


def moves_to_a_thread(net: Blocks, step: int) -> list[float]:
    """The main thread makes a trial step and never ends it: training goes on in a worker."""

    def one() -> list[float]:
        loss = net(batch()).pow(2).mean()
        loss.backward()
        return [loss.item()]

    if step == 0:
        return one()
    if step == 1:
        time.sleep(_REST_S)
    return _WORKER.submit(one).result()


# --- a step that outgrows the budget --------------------------------------------------------------


def every_fourth_step_grows(net: Scales, step: int) -> list[float]:
    """It begins like the three before it, and fits until the program keeps more."""
    if step == 12:
        net.kept = torch.zeros(3 * ROWS, WIDTH)
    x = batch()
    for _ in range(6 if step % 4 == 3 else 12):
        x = (x + net.main).sin()
    loss = x.mean()
    del x
    loss.backward()
    return [loss.item()]


def grows(net: Blocks, step: int) -> list[float]:
    loss = net(torch.randn(ROWS // 4 if step < 6 else ROWS, WIDTH)).pow(2).mean()
    loss.backward()
    return [loss.item()]
