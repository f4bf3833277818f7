"""Normalisations. Their running statistics are buffers: one update too many shows."""

from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from zoo import Program, Training, supervised

CHANNELS, BLOCKS = 32, 4


class Convolutional(nn.Module):
    """An activation is 2 MiB."""

    def __init__(self, norm: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(CHANNELS, CHANNELS, 1), norm(), nn.SiLU())
            for _ in range(BLOCKS)
        )
        self.head = nn.Linear(CHANNELS, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean((2, 3)))


def batch() -> tuple[Tensor, Tensor]:
    return torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))


def normalised(norm: Callable[[], nn.Module], prepare: Callable[[nn.Module], object] = id):
    def make() -> Training:
        model = Convolutional(norm)
        prepare(model)

        def loss(_: int) -> Tensor:
            images, labels = batch()
            return F.cross_entropy(model(images), labels)

        return supervised(model, loss)

    return make


def batch_norm(**options: object) -> Callable[[], nn.Module]:
    return lambda: nn.BatchNorm2d(CHANNELS, **options)


def warm(model: nn.Module) -> None:
    """Statistics of some batches, then frozen, as in fine-tuning."""
    with torch.no_grad():
        model(batch()[0])
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()


def alternates() -> Training:
    """Validates after each step, in eval mode, and counts what was normalised."""
    model = Convolutional(batch_norm())
    training = supervised(model, lambda _: F.cross_entropy(*forward()))

    def forward() -> tuple[Tensor, Tensor]:
        images, labels = batch()
        return model(images), labels

    def step(index: int) -> list[Tensor | float | str]:
        values = list(training.step(index))
        model.eval()
        with torch.no_grad():
            values.append(F.cross_entropy(*forward()))
        model.train()
        counted = [int(block[1].num_batches_tracked) for block in model.blocks]
        assert counted == [index + 1] * BLOCKS
        return values

    return Training(step, training.modules)


def two_passes() -> Training:
    """Two forward passes before one backward: statistics of both, in turn."""
    model = Convolutional(batch_norm(momentum=0.3))

    def loss(_: int) -> Tensor:
        first, labels = batch()
        second, others = batch()
        return F.cross_entropy(model(first), labels) + F.cross_entropy(model(second), others)

    return supervised(model, loss)


class Checkpointed(nn.Module):
    """The user's own recomputation updates the statistics twice in PyTorch, and so here."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(CHANNELS)

    def forward(self, x: Tensor) -> Tensor:
        x = checkpoint(self.norm, x, use_reentrant=False)
        return F.silu(x)


class AcrossRanks(nn.BatchNorm2d):
    """BatchNorm over all ranks by differentiable collectives, which run where SyncBatchNorm
    does not."""

    def forward(self, x: Tensor) -> Tensor:
        moments = torch.cat((x.mean((0, 2, 3)), x.square().mean((0, 2, 3))))
        moments = all_reduce(moments) / dist.get_world_size()
        mean, square = moments.chunk(2)
        variance = square - mean.square()
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance, self.momentum)
            self.num_batches_tracked += 1
        scale = (self.weight * torch.rsqrt(variance + self.eps))[:, None, None]
        return (x - mean[:, None, None]) * scale + self.bias[:, None, None]


def refused(call: Callable[[], object]) -> str:
    try:
        call()
    except ValueError as error:
        return str(error)
    raise AssertionError("SyncBatchNorm works on a CPU by now")


def refuses_a_cpu() -> Training:
    """SyncBatchNorm wants a GPU, and so does DDP around it. Frozen, it trains."""
    model = Convolutional(batch_norm())
    warm(model)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    said = refused(lambda: nn.parallel.DistributedDataParallel(model))

    def step(_: int) -> list[Tensor | float | str]:
        model.train()
        images, labels = batch()
        also = refused(lambda: model(images))
        model.eval()
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        return [said, also, loss]

    return Training(step, [model])


def across_ranks() -> Training:
    model = Convolutional(lambda: AcrossRanks(CHANNELS))
    parallel = nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)

    def loss(index: int) -> Tensor:
        torch.manual_seed(dist.get_rank() + 10 * index)
        images, labels = batch()
        return F.cross_entropy(parallel(images), labels)

    return supervised(model, loss)


def spectral(model: nn.Module) -> None:
    """Weights are divided by their spectral norm, whose power iteration goes on in buffers."""
    for block in model.blocks:
        parametrizations.spectral_norm(block[0])
    parametrizations.weight_norm(model.head)


def with_norm_of_rows(norm: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """A norm over the last dimension, between the two permutations that it takes."""

    class Permuted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = norm()

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    return Permuted


PROGRAMS = {
    "batch_norm": Program(normalised(batch_norm())),
    "batch_norm_eval": Program(normalised(batch_norm(), warm)),
    "batch_norm_momentum_none": Program(normalised(batch_norm(momentum=None))),
    "batch_norm_untracked": Program(normalised(batch_norm(track_running_stats=False))),
    "batch_norm_without_weights": Program(normalised(batch_norm(affine=False))),
    "batch_norm_alternates": Program(alternates),
    "batch_norm_two_passes": Program(two_passes),
    "batch_norm_checkpointed": Program(normalised(Checkpointed)),
    "sync_batch_norm_alone": Program(normalised(lambda: nn.SyncBatchNorm(CHANNELS))),
    "sync_batch_norm": Program(refuses_a_cpu, ranks=2),
    "batch_norm_across_ranks": Program(across_ranks, ranks=2),
    "group_norm": Program(normalised(lambda: nn.GroupNorm(8, CHANNELS))),
    "instance_norm": Program(normalised(lambda: nn.InstanceNorm2d(CHANNELS))),
    "instance_norm_tracked": Program(
        normalised(lambda: nn.InstanceNorm2d(CHANNELS, affine=True, track_running_stats=True))
    ),
    "layer_norm": Program(normalised(with_norm_of_rows(lambda: nn.LayerNorm(CHANNELS)))),
    "rms_norm": Program(normalised(with_norm_of_rows(lambda: nn.RMSNorm(CHANNELS)))),
    "local_response_norm": Program(normalised(lambda: nn.LocalResponseNorm(5))),
    "spectral_norm": Program(normalised(lambda: nn.GroupNorm(8, CHANNELS), spectral)),
}
