"""Trains the operations of PyTorch's own op_db whose results lie in a larger storage than they look
at, found by running all of them: --scan lists them, --ops trains some.

Per step and sample: x = (p * 2) / 2 (exact, no leaf), y = op(x), z = y * w. So y is saved, and the
step ends with w's update.
"""

import argparse
import hashlib
import json
import sys
import types
import unittest
import warnings
from pathlib import Path

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

STEPS, REPEATS, SAMPLES = 12, 12, 2
LEAST_BYTES = 32 << 10  # less is never dropped
SIZES = {"XS": 16, "S": 64, "M": 128, "L": 256}  # of op_db's samples, to be worth dropping
BATCHED = {"nn.functional.unfold": 256}  # samples of 600 bytes: a batch of so many


def op_db(sizes: dict[str, int]) -> list:
    try:
        import expecttest  # noqa: F401
    except ModuleNotFoundError:  # which torch's test classes inherit from, and nothing here runs
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in
    import torch.testing._internal.common_methods_invocations as invocations

    for name, module in list(sys.modules.items()):
        if "common_methods_invocations" in name or "_internal.opinfo" in name:
            for size, value in sizes.items():
                if isinstance(getattr(module, size, None), int):
                    setattr(module, size, value)
    return [
        op
        for op in invocations.op_db
        if op.supports_autograd and torch.float32 in op.supported_backward_dtypes("cpu")
    ]


def name_of(op) -> str:
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def tensors(tree) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]


def dense(tree) -> list[Tensor]:
    return [tensor for tensor in tensors(tree) if tensor.layout == torch.strided]


class Oversized(TorchDispatchMode):
    """Does an operator return a tensor, none of its inputs', whose storage it does not fill?"""

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        results = func(*args, **(kwargs or {}))
        given = {tensor.untyped_storage()._cdata for tensor in dense((args, kwargs))}
        for tensor in dense(results):
            storage = tensor.untyped_storage()
            last = sum(
                (n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True)
            )
            looked_at = (last + 1) * tensor.element_size() if tensor.numel() else 0
            made_here = storage._cdata not in given
            self.found = self.found or (made_here and storage.nbytes() > looked_at)
        return results


def is_oversized(op) -> bool:
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=True):
        with Oversized() as mode:
            op(sample.input, *sample.args, **sample.kwargs)
        if mode.found:
            return True
    return False


def samples(op) -> list:
    """The largest, so that its results are worth dropping."""
    torch.manual_seed(7)
    found = []
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=True):
        if op.name in BATCHED:
            batch = (BATCHED[op.name], *[1] * (sample.input.dim() - 1))
            sample.input = sample.input.detach().repeat(batch).requires_grad_()
        given = tensors((sample.input, sample.args, sample.kwargs))
        size = sum(tensor.nbytes for tensor in given)
        trained = any(tensor.requires_grad for tensor in given)
        if trained and LEAST_BYTES < size < 8 << 20:
            found.append((size, sample))
    return [sample for _, sample in sorted(found, key=lambda each: -each[0])[:SAMPLES]]


class Training:
    def __init__(self, op) -> None:
        self.op = op
        self.weights = [torch.full((), 1 + 0.01 * i, requires_grad=True) for i in range(REPEATS)]
        self.calls, self.parameters = [], []
        for sample in samples(op):
            leaves, form = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
            trained = {}
            for i, leaf in enumerate(leaves):
                if isinstance(leaf, Tensor):
                    leaves[i] = leaf.detach().clone().requires_grad_(leaf.requires_grad)
                    if leaf.requires_grad:
                        trained[i] = leaves[i]
            self.parameters += trained.values()
            self.calls.append((leaves, form, trained))

    def step(self) -> list[Tensor]:
        total = torch.zeros(())
        for weight in self.weights:
            for leaves, form, trained in self.calls:
                given = [leaf * 2 / 2 if i in trained else leaf for i, leaf in enumerate(leaves)]
                first, more, named = pytree.tree_unflatten(given, form)
                for result in tensors(self.op(first, *more, **named)):
                    if result.requires_grad:
                        total = total + (result * weight).sum() * 1e-3
        total.backward()
        seen = [total.detach()]
        for parameter in self.parameters + self.weights:
            if parameter.grad is not None:
                seen.append(parameter.grad)
            parameter.grad = None
        with torch.no_grad():
            for weight in self.weights:
                weight.mul_(0.999)
        return seen


def train(op) -> list[str]:
    training = Training(op)
    hashes = []
    for step in range(STEPS if training.calls else 0):
        torch.manual_seed(step)
        digest = hashlib.sha256()
        for tensor in training.step():
            digest.update(tensor.contiguous().numpy().tobytes())
        hashes.append(digest.hexdigest())
    return hashes


def main() -> None:
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--scan", action="store_true")
    parser.add_argument("--ops", help="names with commas between")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    if options.scan:
        result = {"oversized": [name_of(op) for op in op_db({}) if is_oversized(op)]}
    else:
        wanted = options.ops.split(",")
        result = {name_of(op): train(op) for op in op_db(SIZES) if name_of(op) in wanted}
    Path(options.out.replace("{rank}", "0")).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
