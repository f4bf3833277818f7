"""Sharded parameters over Gloo, FSDP1 and FSDP2, and optimizers that run within backward."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from zoo import Program, Training, supervised
from zoo.distributed_programs import descent, feed_forwards, seed_by_rank, split
from zoo.residual_net import ROWS, Block, loss_of, network

# --- FSDP -----------------------------------------------------------------------------------------


def fsdp1(strategy: ShardingStrategy, use_orig_params: bool) -> Training:
    model = FullyShardedDataParallel(
        network(),
        sharding_strategy=strategy,
        auto_wrap_policy=ModuleWrapPolicy({Block}),
        device_id=torch.device("cpu"),
        use_orig_params=use_orig_params,
    )
    seed_by_rank()
    return supervised(model, lambda _: loss_of(model), descent(model.parameters()))


def sharded(**options: object) -> nn.Module:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = network()
    for layer in model:
        fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def fsdp2(**options: object) -> Training:
    model = sharded(**options)
    seed_by_rank()
    return supervised(model, lambda _: loss_of(model), descent(model.parameters()))


def fsdp2_accumulating() -> Training:
    """Two batches a step: the first one's gradients stay whole."""
    model = sharded()
    optimizer = descent(model.parameters())
    seed_by_rank()

    def step(_: int) -> list[Tensor]:
        losses = []
        for last in (False, True):
            model.set_requires_gradient_sync(last)
            losses.append(loss_of(model, ROWS // 2))
            losses[-1].backward()
        optimizer.step()
        optimizer.zero_grad()
        return losses

    return Training(step, [model])


def sharded_and_split() -> Training:
    """FSDP2 over tensor parallel, two by two."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    model = feed_forwards()
    split(model, mesh["tensor"])
    for layer in model:
        fully_shard(layer, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    torch.manual_seed(100 + mesh["data"].get_local_rank())
    return supervised(model, lambda _: loss_of(model), descent(model.parameters()))


# --- optimizers within backward -------------------------------------------------------------------


def in_backward(make: Callable[[], nn.Module]) -> Training:
    """Each parameter is updated as soon as its gradient is there, and the gradient let go."""
    model = make()
    for parameter in model.parameters():
        optimizer = descent([parameter])

        def update(_: Tensor, optimizer: torch.optim.Optimizer = optimizer) -> None:
            optimizer.step()
            optimizer.zero_grad()

        parameter.register_post_accumulate_grad_hook(update)
    if dist.is_initialized():
        seed_by_rank()

    def step(_: int) -> list[Tensor]:
        loss = loss_of(model)
        loss.backward()
        return [loss]

    return Training(step, [model])


def tied_network() -> nn.Module:
    """One linear layer stands in all blocks: updated after its last use."""
    model = network()
    for block in model[1:-1]:
        block.linear = model[0].linear
    return model


PROGRAMS = {
    "fsdp1": Program(lambda: fsdp1(ShardingStrategy.FULL_SHARD, False), ranks=2),
    "fsdp1_orig_params": Program(lambda: fsdp1(ShardingStrategy.FULL_SHARD, True), ranks=2),
    "fsdp1_grad_op": Program(lambda: fsdp1(ShardingStrategy.SHARD_GRAD_OP, True), ranks=2),
    "fsdp2": Program(fsdp2, ranks=2),
    "fsdp2_unsharded_after_forward": Program(lambda: fsdp2(reshard_after_forward=False), ranks=2),
    "fsdp2_mixed_precision": Program(
        lambda: fsdp2(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16)), ranks=2
    ),
    "fsdp2_accumulating": Program(fsdp2_accumulating, ranks=2),
    "fsdp2_optimizer_in_backward": Program(lambda: in_backward(sharded), ranks=2),
    "fsdp2_tensor_parallel": Program(
        sharded_and_split, ranks=4, fraction=-0.4, kept="activations are DTensors"
    ),
    "optimizer_in_backward": Program(lambda: in_backward(network)),
    "optimizer_in_backward_tied": Program(lambda: in_backward(tied_network)),
}
