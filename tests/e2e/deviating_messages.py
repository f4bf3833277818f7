"""Steps whose values travel between ranks while they are saved: read or filled late."""

import torch
import torch.distributed as dist
from deviation_nets import ROWS, WIDTH, Scales


def sends_what_it_saved(net: Scales, step: int) -> list[float]:
    """Activations are on their way while the step goes on; the second rank asks for them late, and
    who sends waits only at the step's end."""
    rank = dist.get_rank()
    other = 1 - rank
    x = torch.rand(ROWS, WIDTH, generator=torch.Generator().manual_seed(2 * step + rank))
    y = x * net.main
    loss = torch.zeros(())
    sending, receiving = [], []
    for index in range(6):
        part = (y + index * 0.1).sin()
        sending.append(dist.isend(part.detach(), other, tag=index))
        if rank == 0:
            receiving.append(irecv(other, index))
        loss = loss + (part * part.cos()).mean()
        del part
    for index in range(6):
        work, received = receiving[index] if rank == 0 else irecv(other, index)
        work.wait()
        loss = loss + (y * received).sin().mean()
    loss.backward()
    for work in sending:
        work.wait()
    return [loss.item()]


def irecv(source: int, tag: int) -> tuple[dist.Work, torch.Tensor]:
    received = torch.empty(ROWS, WIDTH)
    return dist.irecv(received, source, tag=tag), received
