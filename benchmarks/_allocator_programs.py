"""Training programs of benchmarks/allocator.py, built from configurations: no weights, no data."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

Program = tuple[Callable[[], None], list[torch.nn.Parameter]]  # a step, and what it trains


def gpt2() -> Program:
    """12 layers, width 512, 8,192 words; 4 texts of 256."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=12, n_embd=512, n_head=8, vocab_size=8192, n_positions=256)
    model = GPT2LMHeadModel(config)
    model.train()
    text = torch.randint(0, 8192, (4, 256))
    return _program(
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-4),
        lambda: model(input_ids=text, labels=text).loss,
    )


def resnet50() -> Program:
    return _vision("resnet50")


def densenet121() -> Program:
    return _vision("densenet121")


def _vision(name: str) -> Program:
    """8 images of 128 x 128 pixels, 1,000 classes."""
    import torchvision

    model = getattr(torchvision.models, name)()
    images, labels = torch.randn(8, 3, 128, 128), torch.randint(0, 1000, (8,))
    return _program(
        model,
        torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9),
        lambda: F.cross_entropy(model(images), labels),
    )


def _program(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]
) -> Program:
    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step, list(model.parameters())


PROGRAMS = {"gpt2": gpt2, "resnet50": resnet50, "densenet121": densenet121}
