"""Training on several ranks over Gloo: data, tensor, sequence and expert parallel.

Every rank has batches of its own unless the ranks work on one. zoo_train.py compares the
collectives too.
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.nn.functional import all_gather, all_to_all_single
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from zoo import Program, Training, supervised
from zoo.residual_net import CLASSES, ROWS, WIDTH, Block, batch, loss_of, network

Parameters = Iterable[nn.Parameter]


def seed_by_rank() -> None:
    torch.manual_seed(100 + dist.get_rank())


def descent(parameters: Parameters) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3)


# --- DDP ------------------------------------------------------------------------------------------


class Branches(nn.Module):
    """A trunk and two heads, of which a step uses one."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = network()[:-1]
        self.heads = nn.ModuleList(
            nn.Sequential(Block(), nn.Linear(WIDTH, CLASSES)) for _ in range(2)
        )
        self.head = 0

    def forward(self, x: Tensor) -> Tensor:
        return self.heads[self.head](self.trunk(x))


def data_parallel(**options: bool) -> Training:
    model = DistributedDataParallel(network(), **options)
    seed_by_rank()
    return supervised(model, lambda _: loss_of(model), descent(model.parameters()))


def unused_parameters() -> Training:
    """The ranks do not even use the same head."""
    model = DistributedDataParallel(Branches(), find_unused_parameters=True)
    seed_by_rank()

    def loss(step: int) -> Tensor:
        model.module.head = (step // 3 + dist.get_rank()) % 2
        return loss_of(model)

    return supervised(model, loss, descent(model.parameters()))


def accumulating() -> Training:
    """Three batches a step, reduced with the last one."""
    model = DistributedDataParallel(network(3), gradient_as_bucket_view=True)
    optimizer = descent(model.parameters())
    seed_by_rank()

    def step(_: int) -> list[Tensor]:
        losses = []
        with model.no_sync():
            for _ in range(2):
                losses.append(loss_of(model))
                losses[-1].backward()
        losses.append(loss_of(model))
        losses[-1].backward()
        optimizer.step()
        optimizer.zero_grad()
        return losses

    return Training(step, [model])


def compressed() -> Training:
    """A communication hook sends gradients as bf16."""
    model = DistributedDataParallel(network(), bucket_cap_mb=0.5)
    model.register_comm_hook(None, bf16_compress_hook)
    seed_by_rank()
    return supervised(model, lambda _: loss_of(model), descent(model.parameters()))


# --- tensor, sequence and expert parallel ---------------------------------------------------------


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def feed_forwards() -> nn.Sequential:
    return nn.Sequential(*(FeedForward() for _ in range(4)), nn.Linear(WIDTH, CLASSES))


def split(model: nn.Sequential, mesh: dist.device_mesh.DeviceMesh) -> None:
    for block in model[:-1]:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})


def tensor_parallel() -> Training:
    """One batch for all ranks; between the split layers are plain tensors."""
    model = feed_forwards()
    split(model, init_device_mesh("cpu", (2,)))
    return supervised(model, lambda _: loss_of(model), descent(model.parameters()))


def sequence_parallel() -> Training:
    """Norms and residuals hold a part of the rows: everything is a DTensor."""
    model, mesh = feed_forwards(), init_device_mesh("cpu", (2,))
    for block in model[:-1]:
        parallelize_module(
            block,
            mesh,
            {
                "norm": SequenceParallel(sequence_dim=0),
                "up": ColwiseParallel(input_layouts=Shard(0), use_local_output=False),
                "down": RowwiseParallel(output_layouts=Shard(0), use_local_output=False),
            },
        )
    parallelize_module(
        model,
        mesh,
        {
            "0": PrepareModuleInput(
                input_layouts=Shard(0), desired_input_layouts=Shard(0), use_local_output=False
            ),
            "4": ColwiseParallel(input_layouts=Shard(0)),
        },
    )

    def loss(_: int) -> Tensor:
        x, y = batch()
        rank, half, part = dist.get_rank(), ROWS // 2, CLASSES // 2
        scores = model(x[rank * half : (rank + 1) * half])
        return F.cross_entropy(scores, y.remainder(part))

    return supervised(model, loss, descent(model.parameters()))


class Experts(nn.Module):
    """An expert a rank: tokens travel there and back within the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = network(2)[:-1]
        self.expert = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.trunk(x)
        there = all_to_all_single(torch.empty_like(x), x)
        back = all_to_all_single(torch.empty_like(x), self.expert(there))
        return self.head(torch.cat(all_gather(x + back)))


def expert_parallel() -> Training:
    model = Experts()
    seed_by_rank()

    def loss(_: int) -> Tensor:
        x, y = batch()
        labels = torch.cat([torch.empty_like(y) for _ in range(2)])
        dist.all_gather_into_tensor(labels, y)
        return F.cross_entropy(model(x), labels)

    return supervised(model, loss, descent(model.parameters()))


# --- optimizers -----------------------------------------------------------------------------------


def zero_redundancy() -> Training:
    model = DistributedDataParallel(network())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    seed_by_rank()
    return supervised(model, lambda _: loss_of(model), optimizer)


PROGRAMS = {
    "ddp": Program(data_parallel, ranks=4),
    "ddp_static_graph": Program(lambda: data_parallel(static_graph=True), ranks=2),
    "ddp_bucket_view": Program(lambda: data_parallel(gradient_as_bucket_view=True), ranks=2),
    "ddp_unused_parameters": Program(unused_parameters, ranks=2, steps=12),
    "ddp_no_sync": Program(accumulating, ranks=2, fraction=0.3),
    "ddp_comm_hook": Program(compressed, ranks=2),
    # DTensors are neither dropped nor spilled: the budget has to hold them.
    "tensor_parallel": Program(tensor_parallel, ranks=2, fraction=0.1),
    "sequence_parallel": Program(
        sequence_parallel, ranks=2, fraction=-0.2, kept="all values are DTensors"
    ),
    "expert_parallel": Program(expert_parallel, ranks=2),
    "zero_redundancy": Program(zero_redundancy, ranks=2),
}
