"""Steps whose replays a rehearsal must judge one by one, or read what is written without a word."""

import torch
from deviation_nets import Normalised, Parts, Train, batch
from torch import nn


def moves_statistics(since: int, *, recorded: bool = False) -> Train:
    """A pass with running statistics, then, before its backward pass, one that moves them."""

    def train(net: Normalised, step: int) -> list[float]:
        net.eval()
        loss = net(batch()).pow(2).mean()
        if step >= since:
            net.train()
            with torch.set_grad_enabled(recorded):
                other = net(batch()).pow(2).mean()
            loss = loss + other
        loss.backward()
        norms = [part for part in net if isinstance(part, nn.BatchNorm1d)]
        return [loss.item(), *(norm.running_var.sum().item() for norm in norms)]

    return train


def trains_parts_of_one_buffer(net: Parts, step: int) -> list[float]:
    """All parameters are views of one tensor, each with a version counter of its own."""
    if step == 0:
        parameters = list(net.parameters())
        flat = nn.utils.parameters_to_vector(parameters).detach()
        nn.utils.vector_to_parameters(flat, parameters)
    loss = net(batch()).pow(2).mean()
    loss.backward()
    return [loss.item()]
