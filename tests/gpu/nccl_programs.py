"""Jobs over NCCL that know nothing of Ebbtide: a process a GPU, started by torchrun.

torchrun nccl_programs.py NAME --out FOLDER    writes result-RANK.json: bits, peak, others
"""

import argparse
import json
import os
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from training_programs import LAYERS, WIDTH, Mlp, rows, square, train


def of_rank(step: int) -> Tensor:
    return rows(step * dist.get_world_size() + dist.get_rank())


def ddp() -> dict:
    """Gradients are reduced on NCCL's stream while the backward pass goes on."""
    model = Mlp(0.1).cuda()
    return train(DistributedDataParallel(model), of_rank, square)


def messages() -> dict:
    """Activations that are saved travel both ways; sends are waited for at the step's end. In a
    group of one there is nobody to send to: then they are gathered."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    sending: list[dist.Work] = []

    def exchange(sent: Tensor) -> Tensor:
        received = torch.empty_like(sent)
        if ranks == 1:
            dist.all_gather_into_tensor(received, sent, async_op=True).wait()
            return received
        peers = (rank + 1) % ranks, (rank - 1) % ranks
        operations = [
            dist.P2POp(dist.isend, sent, peers[0]),
            dist.P2POp(dist.irecv, received, peers[1]),
        ]
        works = dist.batch_isend_irecv(operations)
        for work in works:
            work.wait()
        return received

    class Halves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Mlp(0.1), Mlp(0.1)

        def forward(self, x: Tensor) -> Tensor:
            y = self.first(x)
            other = exchange(y.detach())
            sending.append(dist.all_reduce(y.detach().clone(), async_op=True))
            return self.second(y * other)

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        value = square(model, x)
        while sending:
            sending.pop().wait()
        return value

    return train(Halves(), of_rank, loss)


MICROBATCHES = 4


def pipeline() -> dict:
    """Rank 0 sends what it computes to rank 1, and gets gradients; microbatches one after the
    other, forward before backward. Tensors that a rank received are saved."""
    first, peer = dist.get_rank() == 0, 1 - dist.get_rank()

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> Tensor:
        parts, total = x.chunk(MICROBATCHES), torch.zeros((), device="cuda")
        if first:
            results = [model(part) for part in parts]
            for result in results:
                dist.send(result.detach(), peer)
                total += result.detach().square().mean()
            for result in results:
                gradient = torch.empty_like(result)
                dist.recv(gradient, peer)
                result.backward(gradient)
        else:
            received = []
            for part in parts:
                received.append(torch.empty_like(part))
                dist.recv(received[-1], peer)
            losses = [square(model, part.requires_grad_()) / MICROBATCHES for part in received]
            for part, loss in zip(received, losses, strict=True):
                loss.backward()
                dist.send(part.grad, peer)
                total += loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        return total

    return train(Mlp(0.1), rows, square, step=step)


def fully_sharded() -> dict:
    """FSDP2: each layer's parameters are gathered when it runs, on streams of FSDP's own."""
    model = Mlp(0.1).cuda()
    for layer in model.layers:
        fully_shard(layer)
    return train(fully_shard(model), of_rank, square)


def tensor_parallel() -> dict:
    """Each rank has half of each matrix; sums of halves are all-reduced."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            return x + F.dropout(self.down(F.gelu(self.up(self.norm(x)))), 0.1, self.training)

    model = nn.Sequential(*(Block() for _ in range(LAYERS // 2))).cuda()
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    for block in model:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    # Norms are whole tensors, matrices are parts: one call for all would mix them.
    adamw = partial(torch.optim.AdamW, lr=1e-3, foreach=False)
    return train(model, rows, square, optimizer=adamw)


PROGRAMS = {f.__name__: f for f in (ddp, messages, pipeline, fully_sharded, tensor_parallel)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=PROGRAMS)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(3)
    torch.cuda.reset_peak_memory_stats()
    result = PROGRAMS[arguments.name]()
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    result["peak"] = torch.cuda.max_memory_allocated()
    # With what NCCL holds beside the blocks.
    result["others"] = total - free - torch.cuda.memory_reserved()
    path = arguments.out / f"result-{dist.get_rank()}.json"
    dist.destroy_process_group()
    path.write_text(json.dumps(result))
