"""Random numbers in the forward pass: drawn once in plain PyTorch, and the same again here."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo import Program, Training, supervised
from zoo.stack import WIDTH, Stack, batch, classified, mlp, stacked


class Noisy(nn.Module):
    """Rows through `layer`, reshaped as it wants them."""

    def __init__(self, layer: Callable[[Tensor], Tensor], *shape: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.layer = layer
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(self.linear(self.norm(x)))
        return torch.tanh(self.layer(y.view(len(y), *self.shape)).view(y.shape))


def noisy(layer: Callable[[], nn.Module], *shape: int) -> Program:
    return Program(stacked(lambda: Noisy(layer(), *(shape or (WIDTH,)))))


def drops_functionally(y: Tensor) -> Tensor:
    y = F.dropout(y * 2, 0.2, inplace=True)
    y = F.alpha_dropout(y + 1, 0.1, inplace=True)
    y = F.feature_alpha_dropout(y.unflatten(1, (8, -1)) + 0.5, 0.1, inplace=True)
    return F.dropout1d(y.sin(), 0.3, inplace=True).flatten(1)


def noise(y: Tensor) -> Tensor:
    """What draws and is no layer."""
    y = y + 0.1 * torch.randn_like(y)
    y = y * torch.bernoulli(y.detach().sigmoid())
    y = y + torch.rand(y.shape).log().neg()
    y = y * torch.empty_like(y).uniform_(0.9, 1.1)
    y = y + torch.normal(y.detach(), 0.1).exp().clamp(max=2)
    y = F.gumbel_softmax(y, tau=2.0) * y
    return y[torch.randperm(len(y))]


class StochasticDepth(nn.Module):
    """Of each row; its mask is broadcast."""

    def forward(self, y: Tensor) -> Tensor:
        kept = torch.empty(len(y), 1).bernoulli_(0.8)
        return y * kept / 0.8


class Attends(nn.Module):
    """Attention with dropout inside the operator."""

    def forward(self, y: Tensor) -> Tensor:
        heads = y.view(16, -1, 4, WIDTH // 4).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(heads, heads, heads, dropout_p=0.1)
        return mixed.transpose(1, 2).reshape(y.shape)


class Samples(nn.Module):
    """Draws a class for each row and goes on with its embedding, as policies do."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.scores = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.table = nn.Embedding(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        chances = self.scores(self.norm(x)).softmax(1)
        drawn = torch.multinomial(chances, 2, replacement=True)
        chosen = torch.distributions.Categorical(probs=chances).sample()
        sampled = torch.distributions.Normal(chances, 0.1).rsample()
        return self.table(drawn).prod(1) * chances.gather(1, chosen[:, None]) + sampled.sin()


def generators() -> Training:
    """Two generators of the program's own, one of them seeded in each step."""
    own, seeded = torch.Generator().manual_seed(3), torch.Generator()

    def draw(y: Tensor) -> Tensor:
        kept = torch.empty_like(y).bernoulli_(0.9, generator=own)
        y = (y * kept).sin() + torch.randn(y.shape, generator=seeded)
        y = F.dropout(torch.rand(y.shape, generator=own) * y, 0.1)
        return y * torch.bernoulli(y.detach().sigmoid(), generator=seeded)

    model = Stack(lambda: Noisy(draw, WIDTH))

    def loss(step: int) -> Tensor:
        seeded.manual_seed(step // 2)
        x, labels = batch()
        return F.cross_entropy(model(x), labels)

    training = supervised(model, loss)

    def states() -> list[tuple[str, Tensor]]:
        return [("own", own.get_state()), ("seeded", seeded.get_state())]

    return Training(training.step, training.modules, states)


def default_state() -> list[tuple[str, Tensor]]:
    return [("default", torch.get_rng_state())]


def classified_with_state(block: Callable[[], nn.Module]) -> Training:
    training = classified(Stack(block))
    return Training(training.step, training.modules, default_state)


class Forks(nn.Module):
    """Draws in a fork, which leaves the generator where it was."""

    def __init__(self) -> None:
        super().__init__()
        self.block = mlp()

    def forward(self, x: Tensor) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            y = F.dropout(self.block(x), 0.2)
            torch.manual_seed(7)
            y = torch.tanh(y) * torch.rand_like(y)
        return F.dropout(y, 0.2)


class Reseeds(nn.Module):
    """Two masks that are equal because the generator is set back between them."""

    def __init__(self) -> None:
        super().__init__()
        self.block = mlp()

    def forward(self, x: Tensor) -> Tensor:
        state = torch.get_rng_state()
        y = F.dropout(self.block(x), 0.2)
        torch.set_rng_state(state)
        z = F.dropout(torch.tanh(y), 0.2)
        torch.manual_seed(torch.initial_seed() + 1)
        return z * torch.rand_like(z).sin()


def recurrent() -> Training:
    """Dropout between layers, and dropped words."""
    words, cells = nn.Embedding(500, WIDTH), nn.GRU(WIDTH, WIDTH, num_layers=3, dropout=0.2)
    head = nn.Linear(WIDTH, 500)
    model = nn.ModuleList([words, cells, head])

    def loss(_: int) -> Tensor:
        text = torch.randint(0, 500, (17, 256))
        kept = torch.bernoulli(torch.full((16, 256, 1), 0.9))
        states = cells(words(text[:-1]) * kept)[0]
        return F.cross_entropy(head(states).flatten(0, 1), text[1:].flatten())

    return supervised(model, loss)


PROGRAMS = {
    "dropout": noisy(lambda: nn.Dropout(0.2)),
    "dropout_in_place": noisy(lambda: nn.Sequential(nn.Tanhshrink(), nn.Dropout(0.2, True))),
    "dropout1d": noisy(lambda: nn.Dropout1d(0.2), 8, -1),
    "dropout2d": noisy(lambda: nn.Dropout2d(0.2), 8, 4, -1),
    "dropout3d": noisy(lambda: nn.Dropout3d(0.2), 8, 2, 2, -1),
    "alpha_dropout": noisy(lambda: nn.AlphaDropout(0.2)),
    "feature_alpha_dropout": noisy(lambda: nn.FeatureAlphaDropout(0.2), 8, 4, -1),
    "functional_dropout_in_place": Program(stacked(lambda: Noisy(drops_functionally, WIDTH))),
    "rrelu": noisy(lambda: nn.RReLU()),
    "rrelu_in_place": noisy(lambda: nn.Sequential(nn.Tanhshrink(), nn.RReLU(inplace=True))),
    "attention_dropout": noisy(Attends),
    "recurrent_dropout": Program(recurrent),
    "stochastic_depth": noisy(StochasticDepth),
    "noise": Program(stacked(lambda: Noisy(noise, WIDTH))),
    "multinomial": Program(stacked(Samples)),
    "generators": Program(generators),
    "fork_rng": Program(lambda: classified_with_state(Forks)),
    "reseeds": Program(lambda: classified_with_state(Reseeds)),
}
