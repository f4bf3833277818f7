"""Programs of which no step is like another, so that what exceeds the budget is chosen on the spot.

What is dropped so is computed again from what was read then, whatever the program does meanwhile.
"""

import torch
from deviation_nets import ROWS, WIDTH, Blocks, Scales
from torch import Tensor


def rows(step: int) -> int:
    """The longest step comes first."""
    return ROWS - 16 * step


def batch(step: int) -> Tensor:
    return torch.randn(rows(step), WIDTH)


def cheap(x: Tensor, net: Scales, length: int = 12) -> Tensor:
    """Three operations a value that is saved, all of them quicker than a copy to the host."""
    for _ in range(length):
        x = torch.relu(x + 0.1) * net.extra
    return x


def runs(net: Scales, step: int) -> list[float]:
    loss = cheap(batch(step) * net.main, net).pow(2).mean()
    loss.backward()
    return [loss.item()]


def writes_what_was_read(net: Scales, step: int) -> list[float]:
    """Between forward and backward: the input, which the first operation does not save, and ..."""
    x = batch(step)
    first = x + net.main
    loss = cheap(first, net).pow(2).mean()
    x.mul_(2)
    with torch.no_grad():
        first.zero_()  # ... a result that nobody saved
    loss.backward()
    return [loss.item(), x.sum().item()]


def writes_weights(net: Scales, step: int) -> list[float]:
    """The factor that replays read, seen by no version counter."""
    loss = cheap(batch(step) * net.main, net).pow(2).mean()
    net.extra.data.mul_(0.5)
    net.extra.data.mul_(2.0)
    net.main.data.clamp_(-0.5, 1.5)
    loss.backward()
    return [loss.item()]


def writes_weights_in_forward(net: Scales, step: int) -> list[float]:
    """Unseen by any version counter: later operations read another factor than earlier ones."""
    first = cheap(batch(step) * net.main, net, 14).pow(2).mean()
    with torch.no_grad():
        net.extra.data.mul_(0.9)
    second = cheap(batch(step) * net.main, net, 24).pow(2).mean()
    (first + second).backward()
    return [first.item(), second.item()]


def writes_in_place(net: Scales, step: int) -> list[float]:
    """Each block is written over while the one before is needed to compute it again."""
    x = batch(step) * net.main
    for place in range(12):
        x = x * net.extra + 0.1
        x.relu_()
        if place % 3 == 2:
            x = x + 0.2
            x.mul_(1.1)
    loss = x.pow(2).mean()
    loss.backward()
    return [loss.item()]


def writes_what_it_holds(net: Scales, step: int) -> list[float]:
    """The program keeps some results, and writes some of these between forward and backward."""
    x = batch(step) * net.main
    held = []
    for place in range(16):
        y = x + 0.1
        x = torch.relu(y) * net.extra
        if place % 4 == 3:
            held.append(y)
    loss = x.pow(2).mean()
    del x, y
    for y in held[::2]:
        y.detach().add_(3)  # saved by nobody
    loss.backward()
    return [loss.item(), *(y.sum().item() for y in held)]


def lets_go_late(net: Scales, step: int) -> list[float]:
    """Of the first half, when the second one has run: only then these can be dropped."""
    x = batch(step) * net.main
    held = []
    for place in range(16):
        y = torch.relu(x + 0.1)
        x = y * net.extra
        if place < 8:
            held.append(y)
        if place == 12:
            held.clear()
    loss = x.pow(2).mean()
    del x, y
    loss.backward()
    return [loss.item()]


def saves_each_twice(net: Scales, step: int) -> list[float]:
    x = batch(step) * net.main
    total = torch.zeros(())
    for _ in range(12):
        x = torch.relu(x + 0.1)
        total = total + (x * net.main).mean()
        x = x * net.extra
    loss = x.pow(2).mean() + total
    loss.backward()
    return [loss.item()]


def runs_twice(net: Scales, step: int) -> list[float]:
    loss = cheap(batch(step) * net.main, net).pow(2).mean()
    loss.backward(retain_graph=True)
    more = cheap(batch(step) * net.main, net, 6).pow(2).mean()
    more.backward()
    loss.backward()
    return [loss.item(), more.item()]


def drops_out_by_chance(net: Scales, step: int) -> list[float]:
    """With random numbers drawn in between, also by an own generator."""
    x = batch(step) * net.main
    own = torch.Generator().manual_seed(step)
    for _ in range(8):
        x = torch.relu(x + 0.1) * net.extra
        x = torch.nn.functional.dropout(x, 0.2)
        x = x + torch.rand(WIDTH, generator=own)
    loss = x.pow(2).mean()
    loss.backward()
    return [loss.item(), torch.rand(()).item()]


@torch.library.custom_op("unlike::counts_calls", mutates_args=())
def counts_calls(x: Tensor) -> Tensor:
    """Another result each time."""
    counts_calls.calls += 1
    return x + 0.001 * counts_calls.calls


counts_calls.calls = 0
counts_calls.register_autograd(lambda ctx, gradient: gradient)


def calls_what_does_not_repeat(net: Scales, step: int) -> list[float]:
    x = batch(step) * net.main
    counts_calls.calls = 0
    for place in range(12):
        x = torch.relu(x + 0.1) * net.extra
        if place % 4 == 1:
            x = counts_calls(x)
    loss = x.pow(2).mean()
    loss.backward()
    return [loss.item(), float(counts_calls.calls)]


def penalises_gradients(net: Scales, step: int) -> list[float]:
    """Through a few of the operations; the others wait meanwhile."""
    others = cheap(batch(step) * net.main, net, 14).pow(2).mean()
    x = batch(step).requires_grad_()
    loss = cheap(x * net.main, net, 3).pow(2).mean()
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    total = loss + gradient.pow(2).sum() + others
    total.backward()
    return [loss.item(), total.item()]


def frees_what_was_read(net: Scales, step: int) -> list[float]:
    """Its memory, while operations that are dropped have read it."""
    x = batch(step)
    loss = cheap(x + net.main, net).pow(2).mean()
    x.untyped_storage().resize_(0)
    loss.backward()
    return [loss.item()]


def updates_in_backward(net: Blocks, step: int) -> list[float]:
    """Each weight as soon as it has its gradient."""

    def update(parameter: Tensor) -> None:
        parameter.data.sub_(parameter.grad, alpha=0.01)
        parameter.grad = None

    hooks = [each.register_post_accumulate_grad_hook(update) for each in net.parameters()]
    loss = net(batch(step)).pow(2).mean()
    loss.backward()
    for hook in hooks:
        hook.remove()
    return [loss.item()]


def reads_what_was_saved(net: Scales, step: int) -> list[float]:
    """Through the graph, and keeps it, while it is computed again."""
    x = batch(step) * net.main
    nodes = []
    for _ in range(12):
        x = torch.relu(x + 0.1)
        nodes.append(x.grad_fn)
        x = x * net.extra
    loss = x.pow(2).mean()
    del x
    saved = [node._saved_result for node in nodes[2:5]]
    sums = [float(each.sum()) for each in saved]
    del nodes
    loss.backward()
    return [loss.item(), *sums, *(float(each.sum()) for each in saved)]


def fails_in_between(net: Scales, step: int) -> list[float]:
    """Every third step's backward pass is ended by an exception, and run again."""
    loss = cheap(batch(step) * net.main, net).pow(2).mean()
    if step % 3 == 1:

        def stop(gradient: Tensor) -> None:
            raise KeyError("as a test")

        handle = net.main.register_hook(stop)
        try:
            loss.backward(retain_graph=True)
        except KeyError:
            net.zero_grad()
        handle.remove()
    loss.backward()
    return [loss.item()]
