"""Training programs that repeat one step until a plan is in use, and then do something else.

Plain PyTorch. Writes losses and a parameter hash by variant, so that two runs compare. What stands
in the first STEADY steps is what gets planned; `late` steps deviate from it in a way that neither
the operators nor their shapes show.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import planner
import torch
import torch.distributed as dist
from torch import Tensor, nn

WIDTH, ROWS = 256, 1024  # an activation is 1 MiB
STEADY, STEPS = 10, 14

Train = Callable[[nn.Module, int], list[float]]


def late(step: int) -> bool:
    return step >= STEADY


def batch() -> Tensor:
    return torch.randn(ROWS, WIDTH)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dropout(nn.functional.gelu(self.linear(self.norm(x))))


class Blocks(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(*(Block() for _ in range(3)))


class MoreBlocks(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(*(Block() for _ in range(6)))


class Shifted(Blocks):
    """Adds to its input, which saves nothing: the caller may change it afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + self.shift)


class Scales(nn.Module):
    """Two vectors of weights, for programs of elementwise operations."""

    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Parameter(torch.ones(WIDTH))
        self.extra = nn.Parameter(torch.ones(WIDTH))


def chain(x: Tensor, length: int) -> Tensor:
    for _ in range(length):
        x = (x + 1).sin()
    return x


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


class Convolutions(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(*(nn.Conv2d(16, 16, 3, padding=1) for _ in range(6)))

    def forward(self, x: Tensor) -> Tensor:
        for convolution in self:
            x = convolution(x).sin()
        return x


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


def swaps_its_input(net: Shifted, step: int) -> list[float]:
    """Reads ahead into the same tensor: PyTorch's backward sees the next batch, and so does ours."""
    x = batch()
    loss = net(x * net.shift.exp()).pow(2).mean()
    x.data = batch()
    loss.backward()
    return [loss.item()]


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


def every_other_step_fits(net: Blocks, step: int) -> list[float]:
    loss = net(torch.randn(ROWS // 16 if step % 2 else ROWS, WIDTH)).pow(2).mean()
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


# --- a step that outgrows the budget --------------------------------------------------------------


def grows(net: Blocks, step: int) -> list[float]:
    loss = net(torch.randn(ROWS // 4 if step < 6 else ROWS, WIDTH)).pow(2).mean()
    loss.backward()
    return [loss.item()]


@dataclass(frozen=True)
class Variant:
    net: type[nn.Module]
    train: Train
    budget_mib: float = 11  # about two thirds of the plain peak
    steps: int = STEPS
    ranks: int = 1
    holds: bool = False  # within the budget in every step
    steady: int = 0  # from this step on nothing is spilled: each one has its plan
    either: bool = False  # the same bits, or `refused`
    refused: str = ""  # not to be repeated: the error that says so, instead of a wrong number


VARIANTS = {
    "skips_the_auxiliary_loss_once": Variant(Scales, skips_the_auxiliary_loss(2), 9.5),
    "skips_the_auxiliary_loss_long": Variant(Scales, skips_the_auxiliary_loss(*range(2, 9)), 9.5),
    "trains_now_and_then": Variant(Scales, trains_now_and_then, 9.5),
    "clips_weights": Variant(Blocks, clips_weights),
    "frees_its_input": Variant(Shifted, frees_its_input(since=0)),
    "frees_its_input_later": Variant(Shifted, frees_its_input(since=STEADY), refused="was resized"),
    "refills_its_input": Variant(Shifted, refills_its_input),
    "overwrites_in_backward": Variant(Blocks, overwrites_in_backward),
    "draws_in_a_custom_op": Variant(Scales, draws_in_a_custom_op),
    "forward_without_mkldnn": Variant(Convolutions, forward_without_mkldnn),
    "batched_gradients": Variant(Scales, batched_gradients),
    "reduces_in_forward": Variant(Scales, reduces_in_forward, ranks=2),
    "writes_through_numpy": Variant(
        Scales,
        writes_through_numpy,
        8.2,
        either=True,
        refused="(gave other results|modified in place)",
    ),
    "writes_results_through_numpy": Variant(Scales, writes_results_through_numpy, 9.5),
    "writes_through_numpy_before_saving": Variant(
        Scales, writes_through_numpy_before_saving, 12.3, holds=True
    ),
    "writes_one_of_two_results": Variant(Scales, writes_one_of_two_results, 20),
    "writes_and_returns_nothing": Variant(Scales, writes_and_returns_nothing, 14.5),
    "swaps_its_input": Variant(Shifted, swaps_its_input, 13),
    "fails_in_place": Variant(Scales, fails_in_place, 9.5),
    "calls_functional_transforms": Variant(Scales, calls_functional_transforms, 9.5),
    "has_one_more_operation_once": Variant(MoreBlocks, has_one_more_operation_once, 14, holds=True),
    "alternates": Variant(Blocks, alternates),
    "every_other_step_fits": Variant(Blocks, every_other_step_fits, steady=8, steps=16),
    "three_in_turn": Variant(Blocks, three_in_turn, steady=18, steps=24),
    "sets_data_of_all": Variant(Blocks, sets_data_of_all, steady=6),
    "sets_data": Variant(Scales, sets_data, 9.5),
    "grows": Variant(Blocks, grows),
}


def train(name: str) -> dict:
    variant = VARIANTS[name]
    torch.manual_seed(1)
    net = variant.net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    losses: list[str] = []
    for step in range(variant.steps):
        values = variant.train(net, step)
        losses += [value if isinstance(value, str) else value.hex() for value in values]
        optimizer.step()
        optimizer.zero_grad()
        planner.settle()
        print(f"{name}: step {step}", flush=True)
    digest = hashlib.sha256()
    for parameter in net.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    return {"losses": losses, "parameters_sha256": digest.hexdigest()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--variants", required=True, help="names with commas between")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    rank = os.environ.get("RANK", "0")
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    results = {name: train(name) for name in options.variants.split(",")}
    Path(options.out.replace("{rank}", rank)).write_text(json.dumps(results))
    if "RANK" in os.environ:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
