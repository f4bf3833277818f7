"""Steps that write, resize or read again what they hold at a moment that a plan may not expect."""

import ctypes
import threading
import time

import torch
from deviation_nets import ROWS, WIDTH, Scales, Shifted, batch, chain, late

_PERSISTENT = torch.zeros(ROWS, WIDTH)


def writes_before_saving(net: Scales, step: int) -> list[float]:
    """What the first operation reads, which saves nothing, is written before another one does."""
    if step == 0:
        _PERSISTENT.copy_(batch())
    x = _PERSISTENT + net.main
    if late(step):
        with torch.no_grad():
            _PERSISTENT.copy_(batch())
    loss = chain(x, 8).mean()
    del x
    loss.backward()
    return [loss.item()]


def shrinks_before_saving(net: Scales, step: int) -> list[float]:
    loss = chain(batch() * net.main, 6).mean()
    large = net.extra * torch.ones(64 * ROWS, WIDTH)
    head = large[:4]
    large.untyped_storage().resize_(4 * WIDTH * 4)
    loss = loss + head.sin().mean()
    loss.backward()
    return [loss.item()]


def fills_unseen(x: torch.Tensor, number: float) -> None:
    numbers = (ctypes.c_float * x.numel()).from_address(x.data_ptr())
    numbers[:] = [number] * x.numel()


def refills_what_it_wrote_unseen(net: Scales, step: int) -> list[float]:
    """What is written into the block that a storage had before is not what is saved of it now.
    The program lets go of both before the backward pass: what is held alone tells then.
    """
    x = batch() * net.main
    head = x.sin()
    if not late(step):
        x = None
    out = chain(head, 8)
    if x is not None:
        fills_unseen(x, 7)
        storage = x.untyped_storage()
        size = storage.nbytes()
        storage.resize_(0)
        storage.resize_(size)
        fills_unseen(x, 0.5)
        out = out + x.sin()
        x = storage = None
    loss = out.mean()
    loss.backward()
    return [loss.item()]


def only_looks_in_the_main_thread(net: Shifted, step: int) -> list[float]:
    """A forward pass without backward at first; training goes on in other threads."""
    if step == 0:
        assert net(batch()).shape == (ROWS, WIDTH)
        return []
    if step == 1:
        time.sleep(2.2)  # after 2 s another thread's step may be recorded in place of that one
    losses = []

    def one() -> None:
        loss = net(batch()).pow(2).mean()
        loss.backward()
        losses.append(loss.item())

    worker = threading.Thread(target=one)
    worker.start()
    worker.join()
    return losses


def reads_what_was_saved_twice(net: Scales, step: int) -> list[float]:
    """In the forward pass, with other operations between."""
    x = batch() * net.main
    read = []
    for place in range(8):
        x = (x + 1).sin()
        if place == 1:
            node = x.grad_fn
        if place in (3, 5):
            read.append(float(node._saved_self.shape[0]))
    loss = x.mean()
    loss.backward()
    return [loss.item(), *read]


def sets_data_of_a_view(net: Scales, step: int) -> list[float]:
    """Of something written in place after the view was made."""
    base = chain(batch() * net.main, 4)
    view = base[: ROWS // 2]
    base.mul_(2)
    result = view.sin()
    view.data = torch.full_like(view, 0.25)
    loss = result.mean() + base.mean()
    loss.backward()
    return [loss.item()]


def sets_data_and_lets_go(net: Scales, step: int) -> list[float]:
    """Of saved inputs, with a history and without, that nobody else refers to in backward."""
    x = batch() * net.main
    for _ in range(4):
        scale, sine = torch.ones_like(x), x.sin()
        x = sine * scale + (sine * net.extra).cos()
        before = scale.data
        scale.data = scale.data * 1.5
        scale.data = before if step % 2 else scale.data * 2
        sine.data = torch.full_like(sine, 0.25)
        del scale, sine
    loss = x.pow(2).mean()
    del x
    loss.backward()
    return [loss.item()]


def switches_the_precision(net: Scales, step: int) -> list[float | str]:
    """The backward pass runs under another one; the matmul's own follows the general switch."""
    torch.backends.fp32_precision = "tf32"
    loss = chain(batch() * net.main, 6).mean()
    torch.backends.fp32_precision = "ieee"
    loss.backward()
    torch.backends.fp32_precision = "tf32"
    follows = torch.backends.mkldnn.matmul.fp32_precision
    torch.backends.fp32_precision = "ieee"
    return [loss.item(), follows]
