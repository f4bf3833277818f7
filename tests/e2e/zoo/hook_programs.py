"""Hooks on tensors, nodes, modules and parameters, part of autograd_programs."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import register_multi_grad_hook

from zoo import Program, Training
from zoo.stack import Stack, batch, classified, momentum


def tensor_hooks() -> Training:
    """They look, they change the gradient, they read the activation again."""
    net = Stack()
    optimizer = momentum(net)
    net.head.weight.register_hook(lambda gradient: gradient.clamp(-1e-3, 1e-3))
    net.blocks[0][1].bias.register_hook(lambda gradient: gradient.mul_(2))
    removed = net.head.bias.register_hook(lambda gradient: gradient * 0)
    removed.remove()

    def step(_: int) -> list[Tensor | float]:
        seen: list[Tensor | float] = []
        x, labels = batch()
        first = torch.tanh(net.blocks[0](x))
        first.retain_grad()
        first.register_hook(lambda gradient: gradient * (1 - first))
        second = torch.tanh(net.blocks[1](first))
        second.register_hook(lambda gradient: seen.append(gradient.abs().sum().item()))
        second.grad_fn.register_prehook(lambda outputs: (outputs[0] * 0.5,))
        second.grad_fn.register_hook(lambda inputs, _: tuple(2 * one for one in inputs))
        third = torch.tanh(net.blocks[2](second))
        register_multi_grad_hook(
            (second, third), lambda both: seen.append(sum(one.sum().item() for one in both))
        )
        loss = F.cross_entropy(net.head(third), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return [loss, first.grad.sum(), *seen]

    return Training(step, [net])


def module_hooks() -> Training:
    """They replace inputs, outputs and gradients, and keep what passes."""
    net = Stack()
    optimizer = momentum(net)
    passed: dict[str, Tensor] = {}

    def keep(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        passed["kept"] = output

    def scale(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return output * 0.5

    def shift(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (inputs[0] + 0.1,)

    def halve(module: nn.Module, inputs: tuple[Tensor], outputs: tuple[Tensor]) -> tuple[Tensor]:
        return (inputs[0] * 0.5,)

    def double(module: nn.Module, outputs: tuple[Tensor]) -> tuple[Tensor]:
        passed["gradient"] = outputs[0]
        return (outputs[0] * 2,)

    net.blocks[0].register_forward_pre_hook(shift)
    net.blocks[0].register_forward_hook(scale)
    net.blocks[1][2].register_forward_hook(keep)
    net.blocks[1].register_full_backward_hook(halve)
    net.blocks[2].register_full_backward_pre_hook(double)

    def step(_: int) -> list[Tensor]:
        x, labels = batch()
        of_all = nn.modules.module.register_module_forward_hook(
            lambda module, inputs, output: output + 0.1 if isinstance(module, nn.GELU) else None
        )
        loss = F.cross_entropy(net(x), labels) + passed["kept"].square().mean()
        of_all.remove()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return [loss, passed["kept"], passed["gradient"]]

    return Training(step, [net])


def steps_in_backward() -> Training:
    """Each parameter is updated by its post-accumulate hook, and its gradient freed."""
    net = Stack()
    optimizers = {
        parameter: torch.optim.AdamW([parameter], foreach=False) for parameter in net.parameters()
    }

    def update(parameter: Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in optimizers:
        parameter.register_post_accumulate_grad_hook(update)

    def step(_: int) -> list[Tensor]:
        x, labels = batch()
        loss = F.cross_entropy(net(x), labels)
        loss.backward()
        return [loss]

    return Training(step, [net])


def changes_accumulated() -> Training:
    """A post-accumulate hook that clips, as some large-model recipes do."""
    net = Stack()

    def clip(parameter: Tensor) -> None:
        parameter.grad.clamp_(-1e-3, 1e-3)

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(clip)
    return classified(net)


PROGRAMS = {
    "tensor_hooks": Program(tensor_hooks),
    "module_hooks": Program(module_hooks),
    "post_accumulate_steps": Program(steps_in_backward),
    "post_accumulate_clips": Program(changes_accumulated),
}
