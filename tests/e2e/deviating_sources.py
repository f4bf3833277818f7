"""Tensors that something fills which no operator tells of: lists, NumPy, a raw copy. And results
whose storage is larger than what they look at, or partly unwritten."""

import ctypes

import numpy as np
import torch
from deviation_nets import ROWS, WIDTH, Scales, Train, batch, late
from torch import Tensor, nn
from torch.nn import functional


def indexes_by_lists(net: Scales, step: int) -> list[float]:
    """Each list becomes an index, in memory that torch asks for and fills unseen."""
    x = batch().requires_grad_()
    h = x
    for _ in range(4):
        h = functional.gelu(h * net.main)
        parts = h.view(ROWS, 8, 4, 8)
        h = h + parts[:, [0, 1], :, [0, 1]].sum() * 1e-3 + parts[:, [3, 2, 1]].mean()
    loss = h.square().mean() * net.extra.mean()
    (slope,) = torch.autograd.grad(loss, x, create_graph=True)
    loss = loss + slope.square().sum()
    loss.backward()
    return [loss.item()]


def _list(step: int) -> Tensor:
    values = np.random.RandomState(step).rand(8 * WIDTH).tolist()
    return torch.tensor(values).view(8, WIDTH).repeat(ROWS // 8, 1)


def _numpy(step: int) -> Tensor:
    filled = torch.empty(ROWS, WIDTH)
    filled.numpy()[:] = np.random.RandomState(step).rand(ROWS, WIDTH)
    return filled


def _numpy_over_zeros(step: int) -> Tensor:
    filled = torch.zeros(ROWS, WIDTH)
    filled.numpy()[:] = np.random.RandomState(step).rand(ROWS, WIDTH)
    return filled


def _half_by_numpy(step: int) -> Tensor:
    filled = torch.empty(ROWS, WIDTH)
    filled[: ROWS // 2].copy_(torch.full((ROWS // 2, WIDTH), 0.5))
    filled.numpy()[ROWS // 2 :] = np.random.RandomState(step).rand(ROWS // 2, WIDTH)
    return filled


def _raw(step: int) -> Tensor:
    bits = np.random.RandomState(step).rand(ROWS, WIDTH).astype(np.float32)
    filled = torch.empty(ROWS, WIDTH)
    ctypes.memmove(filled.data_ptr(), bits.ctypes.data, bits.nbytes)
    return filled


def _raw_over_ones(step: int) -> Tensor:
    bits = np.random.RandomState(step).rand(ROWS, WIDTH).astype(np.float32)
    filled = torch.ones(ROWS, WIDTH)
    ctypes.memmove(filled.data_ptr(), bits.ctypes.data, bits.nbytes)
    return filled


SOURCES = {
    "a_list": _list,
    "numpy": _numpy,
    "numpy_over_zeros": _numpy_over_zeros,
    "half_by_numpy": _half_by_numpy,
    "raw_memory": _raw,
    "raw_memory_over_ones": _raw_over_ones,
}


def reads_what_fills(source: str) -> Train:
    """It is saved, read without being saved, copied, and written in place."""

    def train(net: Scales, step: int) -> list[float]:
        x = batch()
        for place in range(3):
            filled = SOURCES[source](16 * step + place)
            x = (x * net.main).tanh() * filled
            x = (x + filled).sin() * net.extra
            copied = torch.empty_like(filled)
            copied.copy_(filled)
            x = (x - copied).cos()
            added = SOURCES[source](16 * step + place + 8)
            added += 1
            x = x * added
        loss = x.mean()
        loss.backward()
        return [loss.item()]

    return train


def breaks_its_index(net: Scales, step: int) -> list[float]:
    """An index that nothing saves points nowhere by the time of the backward pass."""
    x = batch()
    place = torch.randperm(ROWS)
    for _ in range(8):
        x = x.detach().index_select(0, place) * net.main
        x = x + (x * net.extra).sin()
    loss = x.mean()
    if late(step):
        place.numpy()[:] = 1 << 40
    loss.backward()
    return [loss.item()]


def breaks_an_index_but_holds_its_results(net: Scales, step: int) -> list[float]:
    """A replay would fail as in breaks_its_index, but what it should give is there."""
    # No common function with it: there no name holds a result for a line longer, and that counts.
    x = batch()
    place = torch.randperm(ROWS)
    held = []
    for _ in range(8):
        x = x.detach().index_select(0, place)
        if late(step):
            held.append(x)
        x = x * net.main
        x = x + (x * net.extra).sin()
    loss = x.mean()
    if late(step):
        place.numpy()[:] = 1 << 40
    loss.backward()
    return [loss.item()]


def weighs_losses(net: Scales, step: int) -> list[float]:
    """Each loss is a number in a storage as large as its inputs. The weights learn: it is saved."""
    x = batch()
    total = torch.zeros(())
    for i, loss in enumerate(
        (
            functional.mse_loss,
            functional.smooth_l1_loss,
            functional.soft_margin_loss,
            functional.binary_cross_entropy,
        )
        * 2
    ):
        x = (x * net.main).sigmoid()
        total = total + loss(x, batch().sigmoid()) * net.extra[i]
    total.backward()
    return [total.item()]


def spreads_volumes(net: Scales, step: int) -> list[float]:
    """conv_transpose3d makes its result larger than it returns it, and leaves bytes unwritten."""
    x = batch().view(1, 2, 32, 64, 64)
    kernel = net.extra[:108].view(2, 2, 3, 3, 3) / 54
    for _ in range(6):
        x = functional.conv_transpose3d(x, kernel, padding=1)
        x = (x.view(ROWS, WIDTH) * net.main).sin().view_as(x)
    loss = x.square().mean()
    loss.backward()
    return [loss.item()]


class Spoken(nn.Module):
    """Scores of 256 moments of 16 sentences, of other lengths each step."""

    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Parameter(torch.ones(32))
        self.extra = nn.Parameter(torch.ones(8))


def aligns_sentences(net: Spoken, step: int) -> list[float]:
    """What ctc_loss saves is as long as the longest sentence, and unwritten after shorter ones."""
    x = torch.randn(256, 16, 32)
    total = torch.zeros(())
    for i in range(4):
        x = (x * net.main).sin()
        moments = torch.randint(100, 257, (16,))
        letters = torch.randint(4, 33, (16,))
        loss = functional.ctc_loss(
            x.log_softmax(2), torch.randint(1, 32, (16, 32)), moments, letters, zero_infinity=True
        )
        total = total + loss * net.extra[i]
    total.backward()
    return [total.item()]


def solves_least_squares(net: Scales, step: int) -> list[float]:
    """LAPACK's driver is given memory that nobody wrote: some calls differ from the next."""
    x = batch().view(128, 2048)
    for i in range(6):
        matrix = torch.eye(128) + torch.randn(128, 128) / 40
        x = (torch.linalg.lstsq(matrix, x * net.main[i]).solution * net.extra[i]).tanh()
    loss = x.square().mean()
    loss.backward()
    return [loss.item()]
