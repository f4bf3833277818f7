"""Training on lanes as a GPU's streams are, told to the fake device (tests/fake_device).

Plain PyTorch where that is not loaded. Writes losses and a parameter hash: two runs compare.
"""

import argparse
import ctypes
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import planner
import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, ROWS, BLOCKS, STEPS = 128, 4096, 4, 12

device = ctypes.CDLL(os.environ["FAKE_DEVICE"]) if "FAKE_DEVICE" in os.environ else None
if device is not None:
    device.fake_device_lane.argtypes = [ctypes.c_int64]
NOT_CAPTURED, CAPTURED_ELSEWHERE, CAPTURED = range(3)


@contextmanager
def on_lane(lane: int) -> Iterator[None]:
    if device is not None:
        device.fake_device_lane(lane)
    try:
        yield
    finally:
        if device is not None:
            device.fake_device_lane(0)


@contextmanager
def capturing(state: int) -> Iterator[None]:
    if device is not None:
        device.fake_device_capture(state)
    try:
        yield
    finally:
        if device is not None:
            device.fake_device_capture(NOT_CAPTURED)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(BLOCKS))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(BLOCKS))

    def half(self, x: Tensor, first: bool) -> Tensor:
        middle = BLOCKS // 2
        for i in range(0, middle) if first else range(middle, BLOCKS):
            x = x + F.dropout(F.gelu(self.norms[i](self.layers[i](x))), 0.1)
        return x


def plain(net: Net, x: Tensor, step: int) -> Tensor:
    loss = net.half(net.half(x, True), False).square().mean()
    loss.backward()
    return loss


def backward_elsewhere(net: Net, x: Tensor, step: int) -> Tensor:
    """As a GPU's: on a thread that runs no forward pass. That one is on another lane, too."""
    loss = net.half(net.half(x, True), False).square().mean()
    run_elsewhere(loss, passes=1)
    return loss


def twice_elsewhere(net: Net, x: Tensor, step: int) -> Tensor:
    """The same through a graph that is kept: nothing but its nodes tells one from the next."""
    loss = net.half(net.half(x, True), False).square().mean()
    run_elsewhere(loss, passes=2)
    return loss


def run_elsewhere(loss: Tensor, passes: int) -> None:
    one = torch.ones_like(loss)

    def backward() -> None:
        with on_lane(1):
            for more in reversed(range(passes)):
                torch.autograd.backward(loss, one, retain_graph=more > 0)

    thread = threading.Thread(target=backward)
    thread.start()
    thread.join()


def two_lanes(net: Net, x: Tensor, step: int) -> Tensor:
    """From the eighth step on one half of the forward pass is on another lane."""
    x = net.half(x, True)
    with on_lane(1 if step >= 7 else 0):
        x = net.half(x, False)
    loss = x.square().mean()
    loss.backward()
    return loss


def prefetches(net: Net, x: Tensor, step: int) -> Tensor:
    """What the next step reads is made on another lane, of nothing that the step knows."""
    y = net.half(x, True)
    with on_lane(1):
        ahead = torch.arange(ROWS, dtype=torch.float32).mul(0.5).relu()
    y = y + ahead.unsqueeze(1) * 1e-6
    loss = net.half(y, False).square().mean()
    loss.backward()
    return loss


def captures(net: Net, x: Tensor, step: int) -> Tensor:
    """A whole pass between the steps, and a part of every other step, is captured into a graph."""
    with capturing(CAPTURED):
        net.half(x[:64], True).sum().backward()
    net.zero_grad()
    y = net.half(x, True)
    if step % 2 == 1:
        with capturing(CAPTURED_ELSEWHERE if step % 4 == 1 else CAPTURED):
            y = y + F.gelu(net.layers[0](y))
    loss = net.half(y, False).square().mean()
    loss.backward()
    return loss


def switches(net: Net, x: Tensor, step: int) -> Tensor:
    """The libraries' switches are others in the backward pass, and stay as they are set."""
    loss = net.half(net.half(x, True), False).square().mean()
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    loss.backward()
    assert torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.deterministic
    assert torch.get_float32_matmul_precision() == "high"
    assert not torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.deterministic = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = True
    return loss


PROGRAMS = {
    f.__name__: f
    for f in (
        plain,
        backward_elsewhere,
        twice_elsewhere,
        two_lanes,
        prefetches,
        captures,
        switches,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=PROGRAMS)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    losses = []
    for step in range(STEPS):
        x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(step))
        losses.append(PROGRAMS[arguments.name](net, x, step).item().hex())
        optimizer.step()
        optimizer.zero_grad()
        planner.settle()
    bits = b"".join(p.detach().numpy().tobytes() for p in net.parameters())
    result = {"losses": losses, "parameters": hashlib.sha256(bits).hexdigest()}
    path = Path(arguments.out.replace("{rank}", "0"))
    path.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
