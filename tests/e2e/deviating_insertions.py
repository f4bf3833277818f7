"""Steps that do what was planned and, in between, something more."""

from collections.abc import Callable

import torch
from deviation_nets import ROWS, WIDTH, Scales, batch, late
from torch import Tensor

LENGTH = 12
Insertion = Callable[[Scales, Tensor], Tensor | float]  # a part of the loss, or a measurement


def _step(net: Scales, inserted: dict[int, Insertion]) -> list[float]:
    x = batch() * net.main
    more, measured = [], []
    for index in range(LENGTH):
        x = (x + 1).sin()
        if index in inserted:
            result = inserted[index](net, x)
            if isinstance(result, Tensor):
                more.append(result)
            else:
                measured.append(result)
    loss = x.mean()
    del x
    for part in more:
        loss = loss + part
    loss.backward()
    return [loss.item(), *measured]


def _each_late_step(insertion: Insertion) -> Callable[[Scales, int], list[float]]:
    """Each at another place."""

    def train(net: Scales, step: int) -> list[float]:
        return _step(net, {2 * step % LENGTH: insertion} if late(step) else {})

    return train


def _measure(net: Scales, x: Tensor) -> float:
    return (x * x).mean().item()  # saves x, and lets go of it at once


def _draw(net: Scales, x: Tensor) -> float:
    return (x + torch.randn(ROWS, WIDTH)).abs().max().item()


def _read_an_array(net: Scales, x: Tensor) -> float:
    numbers = torch.linspace(0, 1, ROWS * WIDTH).view(ROWS, WIDTH).numpy()
    return (x * torch.from_numpy(numbers)).mean().item()


def _lose_more(net: Scales, x: Tensor) -> Tensor:
    return (x * x * net.extra).cos().mean()


def _penalise(net: Scales, x: Tensor) -> Tensor:
    (slope,) = torch.autograd.grad((x.exp() * net.extra).sum(), x, create_graph=True)
    return slope.pow(2).mean()


def _write(net: Scales, x: Tensor) -> float:
    x.data.mul_(0.5)
    return x.sum().item()


class _Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x / 2

    @staticmethod
    def backward(ctx, slope: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return x * slope


def _call_a_function(net: Scales, x: Tensor) -> Tensor:
    return _Halved.apply(x).mean()


def _run_twice(net: Scales, x: Tensor) -> float:
    part = (x.detach() * net.extra).sin().mean()
    part.backward(retain_graph=True)
    part.backward()
    return part.item()


def _run_another_net(net: Scales, x: Tensor) -> Tensor:
    """More operations in a row than an insertion has."""
    for _ in range(50):
        x = (x * net.extra).sin()
    return x.mean()


measures_in_between = _each_late_step(_measure)
draws_in_between = _each_late_step(_draw)
reads_an_array_in_between = _each_late_step(_read_an_array)
loses_more = _each_late_step(_lose_more)
penalises_in_between = _each_late_step(_penalise)
writes_in_between = _each_late_step(_write)
calls_a_function_in_between = _each_late_step(_call_a_function)
runs_backward_in_between = _each_late_step(_run_twice)
runs_another_net_in_between = _each_late_step(_run_another_net)


def measures_everywhere(net: Scales, step: int) -> list[float]:
    return _step(net, dict.fromkeys(range(LENGTH), _measure) if late(step) else {})


def does_everything_in_between(net: Scales, step: int) -> list[float]:
    all_of_them = [_measure, _draw, _lose_more, _penalise, _call_a_function, _read_an_array]
    inserted = dict(zip(range(1, LENGTH, 2), all_of_them, strict=True))
    return _step(net, inserted if late(step) else {})


def reads_the_last_source_first(net: Scales, step: int) -> list[float]:
    """What the plan reads first at the end, an insertion reads before."""
    x = batch() * net.main
    measured = 0.0
    for index in range(LENGTH):
        x = (x + 1).sin()
        if late(step) and index == 4:
            measured = (net.extra * 2).sum().item()
    loss = (x * net.extra).mean()
    del x
    loss.backward()
    return [loss.item(), measured]
