"""Training scripts for a GPU that know nothing of Ebbtide, each in a process of its own.

python training_programs.py NAME --out FILE    writes bits: losses, parameters, random state
GPU_TEST_SIZES=small is for an emulated GPU: blocks of 2 MiB, a page of the device, fewer layers.
GPU_TEST_TRAINING_STEPS=N makes so many steps.
"""

import argparse
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

SMALL = os.environ.get("GPU_TEST_SIZES") == "small"
STEPS = int(os.environ.get("GPU_TEST_TRAINING_STEPS", "12"))
LAYERS = 8
ROWS, WIDTH = (2048, 256) if SMALL else (8192, 1024)  # an activation: 2 or 32 MiB of float32
TEXTS, LENGTH, MODEL_WIDTH, HEADS = (16, 128, 128, 4) if SMALL else (32, 256, 512, 8)


class Mlp(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(LAYERS))
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + F.dropout(F.gelu(layer(norm(x))), self.dropout, self.training)
        return x


def transformer(dropout: float) -> nn.Module:
    layer = nn.TransformerEncoderLayer(
        MODEL_WIDTH, HEADS, 4 * MODEL_WIDTH, dropout=dropout, batch_first=True
    )
    return nn.TransformerEncoder(layer, 4 if SMALL else 6, enable_nested_tensor=False)


def repeat_bits() -> None:
    """Efficient attention adds gradients in no order else: no plain run is like another."""
    torch.use_deterministic_algorithms(True)  # warn_only leaves attention as it is
    torch.utils.deterministic.fill_uninitialized_memory = False  # what is unwritten stays so


def numbers(step: int) -> torch.Generator:
    return torch.Generator().manual_seed(step)


def rows(step: int) -> Tensor:
    return torch.randn(ROWS, WIDTH, generator=numbers(step))


def texts(step: int) -> Tensor:
    return torch.randn(TEXTS, LENGTH, MODEL_WIDTH, generator=numbers(step))


def descend(
    step_loss: Callable[[nn.Module, Tensor], Tensor],
) -> Callable[[nn.Module, torch.optim.Optimizer, Tensor], Tensor]:
    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> Tensor:
        loss = step_loss(model, x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def adamw(parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3)


def train(
    model: nn.Module,
    batch: Callable[[int], Tensor],
    step_loss: Callable[[nn.Module, Tensor], Tensor],
    *,
    step: Callable[[nn.Module, torch.optim.Optimizer, Tensor], Tensor] | None = None,
    optimizer: Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer] = adamw,
) -> dict:
    model = model.cuda()
    step = step or descend(step_loss)
    updates = optimizer(model.parameters())
    losses = []
    for number in range(STEPS):
        losses.append(step(model, updates, batch(number).cuda()).item().hex())
    trained = [*model.parameters(), *model.buffers()]
    here = [t.to_local() if isinstance(t, DTensor) else t for t in trained]
    bits = b"".join(t.detach().cpu().numpy().tobytes() for t in here)
    return {
        "losses": losses,
        "parameters": hashlib.sha256(bits).hexdigest(),
        # What a replay draws must not move it on.
        "random_state": torch.cuda.get_rng_state().tolist(),
    }


def square(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).square().mean()


def mlp() -> dict:
    return train(Mlp(), rows, square)


def mlp_with_dropout() -> dict:
    return train(Mlp(0.1), rows, square)


def transformer_with_dropout() -> dict:
    repeat_bits()
    return train(transformer(0.1), texts, square)


def transformer_in_bf16() -> dict:
    def loss(model: nn.Module, x: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            y = model(x)
        return y.float().square().mean()

    return train(transformer(0.1), texts, loss)


def lstm_with_dropout() -> dict:
    """cuDNN's dropout goes on in a state of its own, beside what PyTorch draws and draws again."""

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(
                MODEL_WIDTH, MODEL_WIDTH, num_layers=2, dropout=0.2, batch_first=True
            )
            self.head = transformer(0.1)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.rnn(x)[0])

    repeat_bits()
    return train(Tagger(), texts, square)


def two_streams() -> dict:
    """Half of the model on a stream of its own."""
    side = torch.cuda.Stream()

    class Halves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Mlp(0.1), Mlp(0.1)

        def forward(self, x: Tensor) -> Tensor:
            y = self.first(x)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                z = self.second(x)
            torch.cuda.current_stream().wait_stream(side)
            for tensor in (x, z):
                tensor.record_stream(side)
            # Not y + z: both halves would share one gradient, which autograd adds to in place on
            # one stream while the other still reads it.
            return y + 2 * z

    return train(Halves(), rows, square)


def whole_on_a_stream() -> dict:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        result = mlp_with_dropout()
    side.synchronize()
    return result


def with_a_graph() -> dict:
    """In the middle of the sixth step a graph is captured; each step from then on replays it."""
    fixed = torch.ones(1024, 1024, device="cuda")
    graph = torch.cuda.CUDAGraph()
    captured: list[Tensor] = []
    steps = 0

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        nonlocal steps
        steps += 1
        result = square(model, x)
        if steps == 6:
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                captured.append(torch.relu(fixed @ fixed).sum())
        if captured:
            graph.replay()
            result = result + 1e-9 * captured[0]
        return result

    return train(Mlp(0.1), rows, loss)


def switched_in_between() -> dict:
    """Other switches of CUDA's libraries in the backward pass than in the forward pass."""

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        torch.backends.cuda.matmul.allow_tf32 = True
        result = square(model, x)
        torch.backends.cuda.matmul.allow_tf32 = False
        return result

    return train(Mlp(0.1), rows, loss)


PROGRAMS = {
    f.__name__: f
    for f in (
        mlp,
        mlp_with_dropout,
        transformer_with_dropout,
        transformer_in_bf16,
        lstm_with_dropout,
        two_streams,
        whole_on_a_stream,
        with_a_graph,
        switched_in_between,
    )
}


def main(programs: dict[str, Callable[[], dict]], description: str | None) -> None:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("name", choices=programs)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.manual_seed(3)
    torch.cuda.reset_peak_memory_stats()
    result = programs[arguments.name]()
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    peak = torch.cuda.max_memory_allocated()
    # What a budget would have to hold: the blocks, and what libraries hold beside them.
    result["peak"] = peak
    result["others"] = total - free - torch.cuda.memory_reserved()
    arguments.out.write_text(json.dumps(result))


if __name__ == "__main__":
    main(PROGRAMS, __doc__)
