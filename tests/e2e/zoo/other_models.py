"""Networks that are neither in torchvision nor in transformers."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo import Program, Training, supervised
from zoo.images import Convolutions, Denoiser, Residual, UNet


class Recurrent(nn.Module):
    def __init__(self, cell: type[nn.RNNBase]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(500, 128)
        self.cells = cell(128, 256, num_layers=2, dropout=0.1, batch_first=True)
        self.head = nn.Linear(256, 500)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.cells(self.embedding(words))[0])


def language(cell: type[nn.RNNBase]) -> Training:
    """64 texts of 24 words, other ones in each step."""
    model = Recurrent(cell)

    def loss(_: int) -> Tensor:
        text = torch.randint(0, 500, (64, 25))
        return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())

    return supervised(model, loss, torch.optim.AdamW(model.parameters()))


def unet() -> Training:
    """Segments images; what the way down saved is joined on the way up."""
    model = UNet(3, 5, 16)

    def loss(_: int) -> Tensor:
        images, labels = torch.randn(4, 3, 96, 96), torch.randint(0, 5, (4, 96, 96))
        return F.cross_entropy(model(images), labels)

    return supervised(model, loss)


def generator() -> nn.Sequential:
    """From 64 numbers to an image of 64 by 64, as in DCGAN."""
    widths = (128, 96, 64, 32)
    layers: list[nn.Module] = [nn.ConvTranspose2d(64, widths[0], 4)]
    for before, after in zip(widths, widths[1:], strict=False):
        layers += [nn.BatchNorm2d(before), nn.ReLU(inplace=True)]
        layers += [nn.ConvTranspose2d(before, after, 4, 2, 1)]
    layers += [nn.BatchNorm2d(32), nn.ReLU(inplace=True), nn.ConvTranspose2d(32, 3, 4, 2, 1)]
    return nn.Sequential(*layers, nn.Tanh())


def discriminator() -> nn.Sequential:
    widths = (3, 32, 64, 96, 128)
    layers: list[nn.Module] = []
    for before, after in zip(widths, widths[1:], strict=False):
        layers += [nn.Conv2d(before, after, 4, 2, 1), nn.BatchNorm2d(after)]
        layers += [nn.LeakyReLU(0.2, inplace=True)]
    return nn.Sequential(*layers, nn.Conv2d(128, 1, 4), nn.Flatten())


def gan() -> Training:
    """Two networks and two optimizers; what was generated is detached for one of them."""
    make, judge = generator(), discriminator()
    makes, judges = (
        torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999)) for net in (make, judge)
    )
    batch = 32

    def rated(images: Tensor, real: bool) -> Tensor:
        ratings = judge(images)
        return F.binary_cross_entropy_with_logits(ratings, torch.full_like(ratings, float(real)))

    def step(_: int) -> list[Tensor]:
        images = make(torch.randn(batch, 64, 1, 1))
        judges.zero_grad()
        on_real = rated(torch.rand(batch, 3, 64, 64) * 2 - 1, True)
        on_real.backward()
        on_generated = rated(images.detach(), False)
        on_generated.backward()
        judges.step()
        makes.zero_grad()
        deceived = rated(images, True)
        deceived.backward()
        makes.step()
        return [on_real, on_generated, deceived]

    return Training(step, [make, judge])


def diffusion() -> Training:
    """Guesses the noise that was added to images, knowing how much; a moving average of it."""
    model = Denoiser(3, 32)
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    kept = torch.linspace(1, 0.01, 1000).cumprod(0)  # of an image, by time

    def step(_: int) -> list[Tensor]:
        images, times = torch.randn(8, 3, 32, 32), torch.randint(0, 1000, (8,))
        noise = torch.randn_like(images)
        share = kept[times].view(-1, 1, 1, 1)
        noisy = share.sqrt() * images + (1 - share).sqrt() * noise
        loss = F.mse_loss(model(noisy, times), noise)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average.update_parameters(model)
        return [loss]

    return Training(step, [model, average])


class Messages(nn.Module):
    """Each node attends to those that point at it, and takes mean and maximum of the rest."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.message = nn.Linear(2 * width, width)
        self.rating = nn.Linear(width, 1)
        self.update = nn.Linear(4 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, nodes: Tensor, source: Tensor, target: Tensor) -> Tensor:
        sent = F.relu(self.message(torch.cat([nodes[source], nodes.index_select(0, target)], 1)))
        ratings = F.leaky_relu(self.rating(sent)).squeeze(1)
        # A softmax over the edges of a node.
        highest = torch.full((len(nodes),), -torch.inf).scatter_reduce(0, target, ratings, "amax")
        weights = (ratings - highest.gather(0, target)).exp()
        total = torch.zeros(len(nodes)).index_add(0, target, weights)
        weights = weights / total[target]
        empty = torch.zeros_like(nodes)
        wide = target[:, None].expand_as(sent)
        gathered = [
            torch.zeros_like(nodes).index_add_(0, target, sent * weights[:, None]),
            empty.scatter_reduce(0, wide, sent, "mean", include_self=False),
            empty.scatter_reduce(0, wide, sent, "amax"),
        ]
        return nodes + self.norm(F.relu(self.update(torch.cat([nodes, *gathered], 1))))


class Graphs(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.kinds = nn.Embedding(20, width)
        self.layers = nn.ModuleList(Messages(width) for _ in range(layers))
        self.head = nn.Linear(width, 1)

    def forward(self, kinds: Tensor, source: Tensor, target: Tensor, graph: Tensor) -> Tensor:
        nodes = self.kinds(kinds)
        for layer in self.layers:
            nodes = layer(nodes, source, target)
        graphs = torch.zeros(int(graph.max()) + 1, nodes.shape[1])
        return self.head(graphs.scatter_add_(0, graph[:, None].expand_as(nodes), nodes))


def gnn(edges: Callable[[int], int]) -> Training:
    """16 graphs of 64 nodes each as one; `edges` are drawn anew in each step."""
    model = Graphs(64, 4)
    graph = torch.arange(16).repeat_interleave(64)

    def loss(step: int) -> Tensor:
        kinds = torch.randint(0, 20, (1024,))
        source = torch.randint(0, 1024, (edges(step),))
        target = graph[source] * 64 + torch.randint(0, 64, source.shape)
        return F.mse_loss(model(kinds, source, target, graph), torch.randn(16, 1))

    return supervised(model, loss, torch.optim.Adam(model.parameters()))


PROGRAMS = {
    # One fused kernel a layer, whose workspace is most of what is saved.
    "lstm": Program(lambda: language(nn.LSTM), fraction=0.25),
    "gru": Program(lambda: language(nn.GRU)),
    "unet": Program(unet, blocks=(Convolutions,)),
    "gan": Program(gan),
    "diffusion": Program(diffusion, blocks=(Residual,)),
    "gnn": Program(lambda: gnn(lambda _: 4096), blocks=(Messages,)),
    "gnn_edges": Program(lambda: gnn(lambda step: 4096 + 512 * (step % 2))),
}
