"""Programs whose steps are not alike."""

import random

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo import Program, Training, supervised
from zoo.residual_net import CLASSES, DEPTH, ROWS, WIDTH, Block, batch, loss_of, network

VOCABULARY, LONGEST, SHORTEST = 200, 256, 32


class Decoder(nn.Module):
    """A causal language model."""

    def __init__(self, layers: int = 3, width: int = 128) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width)
        self.places = nn.Embedding(LONGEST, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, 4, 4 * width, activation="gelu", batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, text: Tensor) -> Tensor:
        length = text.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        x = self.words(text) + self.places(torch.arange(length))
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        return self.head(x)


def next_word(model: nn.Module, length: int, texts: int = 4) -> Tensor:
    text = torch.randint(0, VOCABULARY, (texts, length + 1))
    return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


def decoder(lengths: list[int]) -> Training:
    """In turn."""
    model = Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return supervised(model, lambda step: next_word(model, lengths[step % len(lengths)]), optimizer)


def random_lengths() -> Training:
    drawn = random.Random(7)
    # The first step is the longest, as it is after sorting, or warming up, by length.
    return decoder([LONGEST, *(drawn.randint(SHORTEST, LONGEST) for _ in range(23))])


def random_lengths_short_first() -> Training:
    drawn = random.Random(8)
    return decoder([SHORTEST, *(drawn.randint(SHORTEST, LONGEST) for _ in range(22)), LONGEST])


def padded_lengths() -> Training:
    """Lengths in buckets of 64, so that they recur."""
    drawn = random.Random(9)
    return decoder([64 * drawn.randint(1, 4) for _ in range(24)])


def curriculum() -> Training:
    """Texts grow by 32 words every four steps."""
    return decoder([64 + 32 * (step // 4) for step in range(24)])


# --- depth ----------------------------------------------------------------------------------------


class StochasticDepth(nn.Module):
    """Each block is skipped by chance."""

    def __init__(self, chance: float) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, CLASSES)
        self.chance = chance

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            if torch.rand(()) >= self.chance:
                x = block(x)
        return self.head(x)


def stochastic_depth() -> Training:
    model = StochasticDepth(0.2)
    return supervised(model, lambda _: loss_of(model))


class EarlyExit(nn.Module):
    """Ends at the first block that is sure enough, here by the number of the step."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.heads = nn.ModuleList(nn.Linear(WIDTH, CLASSES) for _ in range(DEPTH))

    def forward(self, x: Tensor, sure: float) -> Tensor:
        for block, head in zip(self.blocks, self.heads, strict=True):
            x = block(x)
            scores = head(x)
            if scores.softmax(1).amax(1).mean().item() > sure:
                break
        return scores


def early_exit() -> Training:
    model = EarlyExit()

    def loss(step: int) -> Tensor:
        x, y = batch()
        return F.cross_entropy(model(x, 0.0 if step % 5 == 3 else 0.22 + 0.02 * (step % 3)), y)

    return supervised(model, loss)


# --- modes, accumulation, models ------------------------------------------------------------------


def evaluating() -> Training:
    """Every third step is followed by evaluations: without gradients, in two ways, and with."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(index: int) -> list[Tensor]:
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        results = [loss]
        if index % 3 == 2:
            model.eval()
            for mode in (torch.no_grad(), torch.inference_mode(), torch.enable_grad()):
                with mode:
                    results.append(loss_of(model).detach().clone())
            model.train()
        return results

    return Training(step, [model])


def accumulating(counts: tuple[int, ...]) -> Training:
    """So many batches a step."""
    model = network(4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(index: int) -> list[Tensor]:
        optimizer.zero_grad()
        losses = []
        for _ in range(counts[index % len(counts)]):
            losses.append(loss_of(model))
            losses[-1].backward()
        optimizer.step()
        return losses

    return Training(step, [model])


def two_in_turn() -> Training:
    """A decoder and a residual network, with optimizers of their own."""
    decoder_, residual = Decoder(), network()
    turns = [
        supervised(decoder_, lambda _: next_word(decoder_, 128)),
        supervised(residual, lambda _: loss_of(residual)),
    ]
    return Training(lambda index: turns[index % 2].step(index), [decoder_, residual])


def distilled() -> Training:
    """The second model joins in the middle, and reads the first one's scores."""
    teacher, student = network(), network(3)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in (teacher, student)]

    def step(index: int) -> list[Tensor]:
        x, y = batch(ROWS)
        scores = teacher(x)
        losses = [F.cross_entropy(scores, y)]
        if index >= 6:
            wanted = scores.detach().softmax(1)
            losses.append(F.cross_entropy(student(x), wanted))
        sum(losses).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return losses

    return Training(step, [teacher, student])


def unfreezing() -> Training:
    """The last layers first; two more train every four steps."""
    model = network()
    model.requires_grad_(False)
    model[-1].requires_grad_(True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def loss(step: int) -> Tensor:
        if step % 4 == 0:
            first = max(0, DEPTH - 2 - step // 2)
            model[first:].requires_grad_(True)
        return loss_of(model)

    return supervised(model, loss, optimizer)


PROGRAMS = {
    "random_lengths": Program(random_lengths, steps=24, varies=True),
    "random_lengths_short_first": Program(random_lengths_short_first, steps=24, varies=True),
    "padded_lengths": Program(padded_lengths, steps=24),
    "curriculum": Program(curriculum, steps=24),
    "stochastic_depth": Program(stochastic_depth, steps=24),
    "early_exit": Program(early_exit, steps=16),
    "evaluating": Program(evaluating, steps=9),
    "accumulating": Program(lambda: accumulating((2, 2, 3, 1, 4)), steps=15),
    "accumulating_ever_more": Program(lambda: accumulating((1, 1, 1, 2, 2, 4)), steps=12),
    "two_in_turn": Program(two_in_turn, steps=12),
    "distilled": Program(distilled, steps=14),
    "unfreezing": Program(unfreezing, steps=16),
}
