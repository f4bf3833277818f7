"""A small training program with many variants: each does one thing that real scripts do.

Plain PyTorch. Writes losses and a parameter hash by variant, so that two runs compare.
"""

import argparse
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import planner
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

WIDTH, BLOCKS, ROWS = 128, 3, 4096


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dropout(self.norm(F.gelu(self.linear(x))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x: Tensor, raise_at: int = -1, checkpointed: bool = False) -> Tensor:
        for index, block in enumerate(self.blocks):
            if index == raise_at:
                raise ValueError("deliberate")
            if checkpointed and index % 2 == 0:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.head(x)


class Batches(Dataset):
    """Whole batches; each depends on its index alone, whichever process makes it."""

    def __init__(self, count: int, smaller_every: int = 0, looks: bool = False) -> None:
        self.count = count
        self.smaller_every = smaller_every
        self.looks = looks  # runs a layer forward, as a dataset that computes features does

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(index)
        smaller = self.smaller_every and index % self.smaller_every == self.smaller_every - 1
        x = torch.randn(ROWS // 3 if smaller else ROWS, WIDTH, generator=generator)
        if self.looks:
            nn.Linear(WIDTH, 4)(x).sum()
        return x, x[:, :10].argmax(1)


def plain(net: Net, x: Tensor, y: Tensor, step: int) -> list[float]:
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    return [loss.item()]


def raises(net: Net, x: Tensor, y: Tensor, step: int) -> list[float]:
    """Every fourth forward raises halfway; the script skips that batch's first try."""
    if step % 4 == 1:
        try:
            net(x, raise_at=BLOCKS // 2)
        except ValueError:
            pass
    return plain(net, x, y, step)


def never_backward(net: Net, x: Tensor, y: Tensor, step: int) -> list[float]:
    return [F.cross_entropy(net(x), y).item()]


def evaluates(net: Net, x: Tensor, y: Tensor, step: int) -> list[float]:
    losses = plain(net, x, y, step)
    if step % 2:
        net.eval()
        with torch.no_grad():
            losses.append(F.cross_entropy(net(x.flip(0)), y.flip(0)).item())
        net.train()
    return losses


def retains_graph(net: Net, x: Tensor, y: Tensor, step: int) -> list[float]:
    loss = F.cross_entropy(net(x), y)
    loss.backward(retain_graph=True)
    loss.backward()
    return [loss.item()]


def double_backward(net: Net, x: Tensor, y: Tensor, step: int) -> list[float]:
    x.requires_grad_()
    loss = F.cross_entropy(net(x), y)
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    penalty = gradient.pow(2).sum()
    (loss + penalty).backward()
    return [loss.item(), penalty.item()]


def checkpoints(net: Net, x: Tensor, y: Tensor, step: int) -> list[float]:
    loss = F.cross_entropy(net(x, checkpointed=True), y)
    loss.backward()
    return [loss.item()]


def autocast(net: Net, x: Tensor, y: Tensor, step: int) -> list[float]:
    with torch.autocast("cpu", torch.bfloat16):
        loss = F.cross_entropy(net(x), y)
    loss.backward()
    return [loss.item()]


def overwrites(net: Net, x: Tensor, y: Tensor, step: int) -> list[float]:
    """Overwrites a value that backward needs: PyTorch must refuse it as ever."""
    refused = 0.0
    if step % 4 == 1:
        saved = torch.sigmoid(net.blocks[0](x))
        loss = saved.sum()
        saved.add_(1.0)
        try:
            loss.backward()
        except RuntimeError as error:
            refused = float("modified by an inplace operation" in str(error))
        net.zero_grad()
    return [refused, *plain(net, x, y, step)]


VARIANTS: dict[str, Callable[[Net, Tensor, Tensor, int], list[float]]] = {
    "plain": plain,
    "raises": raises,
    "never_backward": never_backward,
    "evaluates": evaluates,
    "smaller_batches": plain,
    "forked_workers": plain,
    "spawned_workers": plain,
    "retains_graph": retains_graph,
    "double_backward": double_backward,
    "checkpoints": checkpoints,
    "autocast": autocast,
    "overwrites": overwrites,
}

WORKERS = {"forked_workers": "fork", "spawned_workers": "spawn"}  # how the data loader starts them


def train(variant: str, steps: int) -> dict:
    torch.manual_seed(1)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    batches = DataLoader(
        Batches(
            steps,
            smaller_every=3 if variant == "smaller_batches" else 0,
            looks=variant == "forked_workers",
        ),
        batch_size=None,
        num_workers=2 if variant in WORKERS else 0,
        multiprocessing_context=WORKERS.get(variant),
    )
    losses: list[str] = []
    for step, (x, y) in enumerate(batches):
        losses += [value.hex() for value in VARIANTS[variant](net, x, y, step)]
        optimizer.step()
        optimizer.zero_grad()
        planner.settle()
        print(f"{variant}: step {step}", flush=True)
    digest = hashlib.sha256()
    for parameter in net.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    return {"losses": losses, "parameters_sha256": digest.hexdigest()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--variants", default="plain", help="names with commas between, or all")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--out")
    options = parser.parse_args()
    names = list(VARIANTS) if options.variants == "all" else options.variants.split(",")
    results = {name: train(name, options.steps) for name in names}
    if options.out:
        Path(options.out.replace("{rank}", "0")).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
