"""Steps in which the contents of a tensor, or hidden state, differ from what was planned.

Neither the operators nor their shapes show it.
"""

import re

import numpy as np
import torch
import torch.distributed as dist
from deviation_nets import (
    ROWS,
    STEADY,
    WIDTH,
    Blocks,
    Convolutions,
    Scales,
    Shifted,
    Train,
    batch,
    chain,
    late,
)
from torch import Tensor, nn

# --- contents that change between forward and backward --------------------------------------------


def clips_weights(net: Blocks, step: int) -> list[float]:
    loss = net(batch()).pow(2).mean()
    if late(step):
        for parameter in net.parameters():
            parameter.data.clamp_(-0.05, 0.05)
    loss.backward()
    return [loss.item()]


def frees_its_input(since: int) -> Train:
    def train(net: Shifted, step: int) -> list[float]:
        x = batch()
        loss = net(x).pow(2).mean()
        if step >= since:
            x.untyped_storage().resize_(0)
        loss.backward()
        return [loss.item()]

    return train


_BUFFER = np.zeros((ROWS, WIDTH), dtype=np.float32)


def refills_its_input(net: Shifted, step: int) -> list[float]:
    numbers = np.random.default_rng(step)
    np.copyto(_BUFFER, numbers.standard_normal(_BUFFER.shape, dtype=np.float32))
    loss = net(torch.from_numpy(_BUFFER)).pow(2).mean()
    if late(step):
        np.copyto(_BUFFER, numbers.standard_normal(_BUFFER.shape, dtype=np.float32))
    loss.backward()
    return [loss.item()]


def reads_foreign_memory(net: Scales, step: int) -> list[float]:
    """Late batches are NumPy's own, and eight of their numbers are written before the backward
    pass: the addition saves nothing of them.
    """
    x = batch()
    if late(step):
        numbers = x.numpy().copy()
        x = torch.from_numpy(numbers)
    loss = chain((x + net.main).sin(), 10).mean()
    if late(step):
        numbers[500, 16:24] = 7
    loss.backward()
    return [loss.item()]


class Doubled(torch.autograd.Function):
    """Multiplies by two. Late steps overwrite in backward what another node has saved, too."""

    overwrites = False

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        if Doubled.overwrites:
            x.mul_(3)
        return gradient * 2


def overwrites_in_backward(net: Blocks, step: int) -> list:
    """Doubled's backward comes first and changes what sin has saved: PyTorch refuses to go on."""
    Doubled.overwrites = late(step)
    y = net(batch())
    sine = y.sin()
    loss = (sine + Doubled.apply(y)).mean()
    try:
        loss.backward()
    except RuntimeError as error:
        # Which node's output it was is known to PyTorch's own saved variables alone.
        message = re.sub(r", which is output \d+ of \w+,", "", str(error))
        return [loss.item(), message.partition(" Hint:")[0]]
    return [loss.item()]


# --- writes that tell nobody----------------------------------------------------------------------


def writes_through_numpy(net: Scales, step: int) -> list[float]:
    """Into what autograd has saved already, and then lets go of it."""
    x = batch() * net.main
    for _ in range(12):
        y = torch.relu(x + 0.1)
        x = y * net.extra
        if step == STEADY:
            y.detach().numpy()[300:600] = 0.5
    loss = x.pow(2).mean()
    del x, y
    loss.backward()
    return [loss.item()]


def writes_results_through_numpy(net: Scales, step: int) -> list[float]:
    """Into what only its own operation has saved: no other has to run again with what was there."""
    x = batch() * net.main
    loss = torch.zeros(())
    for index in range(12):
        y = torch.tanh(x + index * 0.1)
        loss = loss + y.mean()
        if late(step):
            y.detach().numpy()[300:600] = 0.5
    del x, y
    loss.backward()
    return [loss.item()]


def writes_through_numpy_before_saving(net: Scales, step: int) -> list[float]:
    x = batch() * net.main
    for _ in range(12):
        y = torch.relu(x + 0.1)
        if late(step):
            y.detach().numpy()[300:340] = 0.5
        x = y * net.extra
    loss = x.pow(2).mean()
    del x, y
    loss.backward()
    return [loss.item()]


def writes_one_of_two_results(net: Scales, step: int) -> list[float]:
    """Sorting saves places too, which only the sort itself gives again, with the values beside."""
    x = batch() * net.main
    total = torch.zeros(())
    sorts = []
    for _ in range(8):
        values, places = torch.sort(x, dim=-1)
        total = total + (values * net.extra).mean()
        x = x.sin()
        sorts += [values] if late(step) else []
    del values, places
    for values in sorts:
        values.detach().numpy()[:] = 0.5
    loss = total + x.mean()
    values = x = None
    loss.backward()
    return [loss.item()]


@torch.library.custom_op("deviations::clear", mutates_args={"x"}, device_types="cpu")
def clear(x: Tensor) -> None:
    x[: ROWS // 4] = 0.5


RAW = torch.library.Library("deviations", "FRAGMENT")
RAW.define("clear_unseen(Tensor(a!) x) -> ()")
RAW.impl("clear_unseen", lambda x: x.numpy()[: ROWS // 4].fill(0.5), "CPU")


def writes_and_returns_nothing(net: Scales, step: int) -> list[float]:
    """By ops that say so in their schema; one of them leaves the version counter as it is."""
    x = batch() * net.main
    for _ in range(6):
        x = x + 0.1
        torch.ops.deviations.clear_unseen(x.detach())
        x = (x * net.extra).sin()
        torch.ops.deviations.clear(x.detach())
        x = x * net.main
    loss = x.pow(2).mean()
    del x
    loss.backward()
    return [loss.item()]


class Exponential(torch.autograd.Function):
    """Saves its output, as the operator does."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return gradient * y


def swaps_its_outputs(net: Scales, step: int) -> list[float]:
    """PyTorch keeps a saved output as it was, whatever data it is given afterwards."""
    x = chain(batch() * net.main, 8)
    of_function, of_operator = Exponential.apply(x), x.exp()
    loss = (of_function + of_operator).mean()
    of_function.data = torch.full((ROWS, WIDTH), 100.0)
    of_operator.data = torch.full((ROWS, WIDTH), 100.0)
    del x
    loss.backward()
    return [loss.item()]


class Sine(torch.autograd.Function):
    """Saves its input, while no operator runs."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient * x.cos()


def swaps_activations(net: Scales, step: int) -> list[float]:
    """Inputs that have a history, and so look like outputs of the node that saves them."""
    x = chain(batch() * net.main, 8)
    of_function, of_operator = x + 1, x + 2
    loss = (Sine.apply(of_function) + of_operator.cos()).mean()
    of_function.data = torch.full((ROWS, WIDTH), 0.25)
    of_operator.data = torch.full((ROWS, WIDTH), 0.5)
    del x
    loss.backward()
    return [loss.item()]


def negates_activations(net: Scales, step: int) -> list[float]:
    """The same storage, with a bit that says how to read it."""
    x = chain(batch() * net.main, 8) + net.extra
    loss = x.pow(2).mean()
    x.data = torch._neg_view(x.data)
    loss.backward()
    return [loss.item()]


def swaps_its_input(net: Shifted, step: int) -> list[float]:
    """Reads ahead into the same tensor: PyTorch's backward sees the next batch, so ours must."""
    x = batch()
    loss = net(x * net.shift.exp()).pow(2).mean()
    x.data = batch()
    loss.backward()
    return [loss.item()]


def moves_its_input(net: Shifted, step: int) -> list[float]:
    """To the other half of the same storage."""
    both = torch.randn(2 * ROWS, WIDTH)
    x = both[:ROWS].detach()
    loss = net(x * net.shift.exp()).pow(2).mean()
    x.data = both[ROWS:]
    del both
    loss.backward()
    return [loss.item()]


_STATIC = torch.zeros(ROWS, WIDTH)


def refills_early(net: Shifted, step: int) -> list[float]:
    """Two microbatches through one buffer, which late steps fill again before the backward pass:
    the first operation saves nothing of it.
    """
    total = 0.0
    for _ in range(2):
        _STATIC.copy_(batch())
        loss = net(_STATIC).pow(2).mean()
        if late(step):
            _STATIC.copy_(batch())
        loss.backward()
        total += loss.item()
    return [total]


def refills_a_kept_graph(net: Shifted, step: int) -> list[float]:
    """Late steps fill the buffer between two backward passes through one graph, of which the
    buffer's reader saves nothing.
    """
    _STATIC.copy_(batch())
    x = _STATIC
    for _ in range(6):
        x = x + net.shift
    loss = net(x).pow(2).mean()
    del x
    loss.backward(retain_graph=late(step))
    if late(step):
        _STATIC.copy_(batch())
        loss.backward()
    return [loss.item()]


# --- state that a replay does not find again by itself --------------------------------------------


@torch.library.custom_op("ebbtide_tests::noisy", mutates_args=())
def noisy(x: Tensor) -> Tensor:
    """Draws from the default generator and says so nowhere."""
    return x + 0.1 * torch.randn(x.shape)


noisy.register_autograd(lambda ctx, gradient: gradient)


def draws_in_a_custom_op(net: Scales, step: int) -> list[float]:
    x = batch() * net.main
    for _ in range(3):
        x = chain(noisy(x), 2)
    loss = x.mean()
    loss.backward()
    return [loss.item()]


def forward_without_mkldnn(net: Convolutions, step: int) -> list[float]:
    x = torch.randn(16, 16, 32, 32)
    with torch.backends.mkldnn.flags(enabled=not late(step)):
        loss = net(x).pow(2).mean()
    loss.backward()
    return [loss.item()]


def batched_gradients(net: Scales, step: int) -> list[float]:
    x = batch() * net.main
    for _ in range(6):
        x = nn.functional.dropout(x.sin(), 0.1)
    loss = x.pow(2).mean()
    if late(step):
        ones = torch.ones(1)
        (net.main.grad,) = (
            gradient[0]
            for gradient in torch.autograd.grad(
                loss, [net.main], grad_outputs=ones, is_grads_batched=True
            )
        )
    else:
        loss.backward()
    return [loss.item()]


def reduces_in_forward(net: Scales, step: int) -> list[float]:
    """Two ranks: the same data at first, where the maximum over the ranks changes nothing."""
    rank = dist.get_rank() if late(step) else 0
    x = torch.rand(ROWS, WIDTH, generator=torch.Generator().manual_seed(2 * step + rank))
    y = x * net.main
    loss = torch.zeros(())
    for index in range(6):
        largest = x + index * 0.1
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        loss = loss + (y * largest).sin().mean()
    loss.backward()
    return [loss.item()]


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, scale: Tensor, writes: bool) -> Tensor:
        ctx.save_for_backward(x, scale)
        ctx.writes = writes
        return x * scale

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, scale = ctx.saved_tensors
        result = gradient * scale, (gradient * x).sum(0), None
        if ctx.writes:
            x.data[5, 7] = 3.0
        return result


class _Frees(_Scaled):
    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        result = _Scaled.backward(ctx, gradient)
        if ctx.writes:
            ctx.saved_tensors[0].untyped_storage().resize_(0)
        return result


def _dear_sum(net: Scales, step: int, function: type[_Scaled]) -> Tensor:
    """What it saves is dear to compute: on the host, where plans may put it there."""
    loss = net.main.sum()
    for _ in range(10):
        dear = (batch().abs() + 1).lgamma()
        loss = loss + function.apply(dear, net.main, late(step)).mean()
    return loss


def writes_one_number_between_passes(net: Scales, step: int) -> list[float]:
    """Into what one pass of a kept graph fetched, and the next one reads. No sample shows it."""
    loss = _dear_sum(net, step, _Scaled)
    loss.backward(retain_graph=True)
    loss.backward()
    return [loss.item()]


def frees_what_it_read(net: Scales, step: int) -> list[float]:
    """What one pass of a kept graph fetched has no memory when its plan drops it."""
    loss = _dear_sum(net, step, _Frees)
    loss.backward(retain_graph=True)
    if not late(step):
        loss.backward()
    return [loss.item()]
