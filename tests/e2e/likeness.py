"""What a program sees of its tensors, one case after another, for test_likeness.py: written as JSON
to --out, to be compared with PyTorch's own."""

import argparse
import copy
import json
import warnings
from collections.abc import Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def outcome(case: Callable[[], object]) -> object:
    try:
        return case()
    except RuntimeError as error:
        chain, text = error, ""
        while chain is not None:
            text += str(chain) + "\n"
            chain = chain.__cause__
        return text


def convert_after(case: str) -> str:
    """Another type of all parameters, by PyTorch's way of swapping tensors."""
    torch.__future__.set_swap_module_params_on_conversion(True)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    try:
        for _ in range(4 if case == "steps" else 1):
            out = net(torch.ones(2, 2)).sum()
            if case != "forward":
                out.backward()
            if case == "steps":
                optimizer.step()
            optimizer.zero_grad()
            del out
        return str(net.double()[0].weight.dtype)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def swap_leaves() -> list[list[float]]:
    a, b = torch.ones(3, requires_grad=True), torch.zeros(3, requires_grad=True)
    (a * a).sum().backward()
    torch.utils.swap_tensors(a, b)
    (b * 3).sum().backward()
    return [a.tolist(), b.tolist(), b.grad.tolist()]


def detach_saved(kind: str) -> list[float]:
    p = torch.full((4,), 0.5, requires_grad=True)
    a = p.clone()
    if kind == "output":  # what its own node saved
        a = a.exp()
        b = a.sum()
    elif kind == "function":
        b = Doubled.apply(a, p, torch.ones(4)).sum()
    else:
        b = a.sin().sum()
    a.detach_()
    if kind == "gone":
        del a
    b.backward()
    return p.grad.tolist()


def detach_between_steps() -> list[float]:
    """Truncated backward passes: nothing saved is detached, though addresses come back."""
    p = torch.full((4,), 0.5, requires_grad=True)
    h = torch.ones(4)
    for _ in range(8):
        h = (h * p).tanh()
        h.sum().backward()
        h.detach_()
    return p.grad.tolist()


def write_saved(nested: bool) -> None:
    if nested:
        x = torch.nested.nested_tensor([torch.ones(2), torch.ones(2)], requires_grad=True).clone()
        y = x.sum(-1, keepdim=True)  # saves its input when it is nested
        x.add_(x)
        y.backward(torch.nested.nested_tensor([torch.ones(1), torch.ones(1)]))
    else:
        x = torch.ones(2, 3, requires_grad=True) + 1
        y = (x * x).sum()
        x.add_(1)
        y.backward()


def write_output() -> None:
    y = torch.ones(3, requires_grad=True).exp()
    z = y.sum()
    y.add_(1)
    z.backward()


class Doubled(torch.autograd.Function):
    seen: list[object] = []

    @staticmethod
    def forward(ctx, x, weight, mask):
        ctx.save_for_backward(x, weight, mask)
        ctx.kept = (weight, mask)
        return x * weight * mask

    @staticmethod
    def backward(ctx, gradient):
        x, weight, mask = ctx.saved_tensors
        same = [weight is ctx.kept[0], mask is ctx.kept[1]]
        Doubled.seen.append(same + [getattr(weight, "main_grad", None)])
        return gradient * weight * mask, gradient * x * mask, None


def what_a_function_finds() -> list[object]:
    """The very tensors that it saved, with what the program hung on them."""
    weight = torch.nn.Parameter(torch.ones(4))
    weight.main_grad = 7
    Doubled.seen = []
    for _ in range(4):
        Doubled.apply(weight * 2, weight, torch.ones(4)).sum().backward()
        weight.data -= weight.grad
        weight.grad = None
    return Doubled.seen


class Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ops.append(str(func))
        return func(*args, **(kwargs or {}))


def what_a_mode_sees(outputs: bool) -> list[str]:
    with Seen() as mode:
        a = torch.ones(10, requires_grad=True)
        b = a.mul(2).div(3)
        (b.exp() * b.sigmoid() if outputs else b * b).sum().backward()
    return mode.ops


def a_mode_in_backward_alone() -> list[str]:
    a = torch.ones(10, requires_grad=True)
    b = (a.mul(2) * a.div(3)).sum()
    with Seen() as mode:
        b.backward()
    return mode.ops


def other_data_for_a_while() -> list[float]:
    """An average's weights for a forward pass, and the own ones again."""
    net = torch.nn.Linear(4, 1)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(0.25)
    losses = []
    for _ in range(6):
        loss = net(torch.ones(2, 4)).square().sum()
        loss.backward()
        own = [parameter.data for parameter in net.parameters()]
        for parameter in net.parameters():
            parameter.data = copy.deepcopy(parameter.data) * 0.5
        with torch.no_grad():
            losses.append(net(torch.ones(2, 4)).sum().item())
        for parameter, data in zip(net.parameters(), own, strict=True):
            parameter.data = data
        for parameter in net.parameters():
            parameter.data = parameter.data - 0.01 * parameter.grad
            parameter.grad = None
        losses.append(loss.item())
    return losses


CASES: dict[str, Callable[[], object]] = {
    "convert after forward": lambda: convert_after("forward"),
    "convert after backward": lambda: convert_after("backward"),
    "convert after steps": lambda: convert_after("steps"),
    "swap leaves": swap_leaves,
    "detach a saved input": lambda: detach_saved("input"),
    "detach a saved input and let go of it": lambda: detach_saved("gone"),
    "detach a saved output": lambda: detach_saved("output"),
    "detach what a Function saved": lambda: detach_saved("function"),
    "detach between steps": detach_between_steps,
    "write a saved input": lambda: write_saved(nested=False),
    "write a saved output": write_output,
    "write a saved nested tensor": lambda: write_saved(nested=True),
    "a Function's saved tensors": what_a_function_finds,
    "a mode sees inputs saved": lambda: what_a_mode_sees(outputs=False),
    "a mode sees outputs saved": lambda: what_a_mode_sees(outputs=True),
    "a mode in backward": a_mode_in_backward_alone,
    "other data for a while": other_data_for_a_while,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--cases", default=",".join(CASES), help="names, in their order")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # nested tensors are a prototype
    results = {name: outcome(CASES[name]) for name in arguments.cases.split(",")}
    with open(arguments.out.replace("{rank}", "0"), "w") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()
