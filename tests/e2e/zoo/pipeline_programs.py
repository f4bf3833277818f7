"""Two pipeline stages over Gloo, by the schedules of torch.distributed.pipelining."""

from collections.abc import Callable
from unittest import mock

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
)

from zoo import Program, Training
from zoo.residual_net import DEPTH, ROWS, batch, network

MICROBATCHES = 4


def pipeline(schedule: type, stages: tuple[int, ...] | None = None, depth: int = DEPTH) -> Training:
    """`stages`: those of this rank, by number; None: one, as many as its rank."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    numbers = stages or (rank,)
    count = ranks * len(numbers)
    model = network(depth)
    parts = [nn.Sequential(*layers) for layers in divided(list(model), count)]
    own = [PipelineStage(parts[n], n, count, torch.device("cpu")) for n in numbers]
    for stage in own:  # Gloo needs no first message, and cannot send one to its own rank
        stage._get_init_p2p_neighbors_ops = list
    run = schedule(own if stages else own[0], MICROBATCHES, loss_fn=F.cross_entropy)
    modules = nn.ModuleList(parts[n] for n in numbers)
    optimizer = torch.optim.AdamW(modules.parameters(), lr=1e-3)

    def step(_: int) -> list[Tensor | str]:
        x, y = batch(MICROBATCHES * ROWS)
        losses: list[Tensor] = []
        messages: list[str] = []  # which the flight recorder of Gloo leaves out
        optimizer.zero_grad()
        arguments = (x,) if 0 in numbers else ()
        labels = {"target": y, "losses": losses} if count - 1 in numbers else {}
        with mock.patch.object(dist, "batch_isend_irecv", noting(messages)):
            run.step(*arguments, **labels)
        optimizer.step()
        return [*losses, *messages]

    return Training(step, [modules])


def noting(messages: list[str]) -> Callable[[list[dist.P2POp]], list[dist.Work]]:
    genuine = dist.batch_isend_irecv

    def send_and_receive(operations: list[dist.P2POp]) -> list[dist.Work]:
        for one in operations:
            messages.append(f"{one.op.__name__} {one.group_peer} {list(one.tensor.shape)}")
        return genuine(operations)

    return send_and_receive


def divided(layers: list[nn.Module], count: int) -> list[list[nn.Module]]:
    """As evenly as it goes; the last part has what is over."""
    size = len(layers) // count
    ends = [size * (part + 1) for part in range(count - 1)] + [len(layers)]
    return [layers[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def in_turns(schedule: type) -> Training:
    """A rank has every second one of four stages."""
    return pipeline(schedule, (dist.get_rank(), dist.get_rank() + 2), depth=8)


def in_a_v() -> Training:
    """A rank has two of four stages, so that the first one has the last stage too."""
    rank = dist.get_rank()
    return pipeline(ScheduleZBVZeroBubble, (rank, 3 - rank), depth=8)


PROGRAMS = {
    "gpipe": Program(lambda: pipeline(ScheduleGPipe), ranks=2),
    "one_forward_one_backward": Program(lambda: pipeline(Schedule1F1B), ranks=2),
    "interleaved": Program(lambda: in_turns(ScheduleInterleaved1F1B), ranks=2),
    "interleaved_zero_bubble": Program(lambda: in_turns(ScheduleInterleavedZeroBubble), ranks=2),
    # Gradients of weights come late: what they read stays, a quarter of the activations.
    "v_zero_bubble": Program(in_a_v, ranks=2, fraction=0.4),
}
