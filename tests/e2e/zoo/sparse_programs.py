"""Nested and sparse tensors, part of precision_programs: what lies around them is planned."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo import Program, Training, supervised
from zoo.stack import CLASSES, ROWS, WIDTH, Stack, batch, mlp, stacked


def graph(rows: int, layout: torch.layout) -> Tensor:
    """Each row has 4 neighbours."""
    rows_of = torch.arange(rows).repeat_interleave(4)
    columns = torch.randint(0, rows, (len(rows_of),))
    indices = torch.stack((rows_of, columns))
    matrix = torch.sparse_coo_tensor(indices, torch.rand(len(rows_of)), (rows, rows)).coalesce()
    return matrix.to_sparse(layout=layout)


class MultipliesSparse(nn.Module):
    """Graph convolution: the adjacency is sparse."""

    def __init__(self, layout: torch.layout) -> None:
        super().__init__()
        self.adjacency = graph(ROWS, layout)
        self.block = mlp()

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(torch.sparse.mm(self.adjacency, self.block(x)))


class LearnsEdges(nn.Module):
    """The values of the sparse matrix are learnt, and normalised over each row."""

    def __init__(self) -> None:
        super().__init__()
        self.indices = graph(ROWS, torch.sparse_coo).indices()
        self.scores = nn.Parameter(torch.randn(self.indices.shape[1]))
        self.block = mlp()

    def forward(self, x: Tensor) -> Tensor:
        edges = torch.sparse_coo_tensor(
            self.indices, torch.tanh(self.scores), (ROWS, ROWS), is_coalesced=True
        )
        attention = torch.sparse.softmax(edges, dim=1)
        return F.gelu(torch.sparse.mm(attention, self.block(x)))


class SparseWords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(1000, WIDTH, sparse=True)
        self.bags = nn.EmbeddingBag(1000, WIDTH, mode="sum", sparse=True)
        self.stack = Stack()

    def forward(self, words: Tensor) -> Tensor:
        return self.stack(self.words(words[:, 0]) + self.bags(words))


def sparse_gradients() -> Training:
    model = SparseWords()
    sparse = torch.optim.SparseAdam([model.words.weight, model.bags.weight])
    dense = torch.optim.AdamW(model.stack.parameters())

    def step(_: int) -> list[Tensor]:
        words = torch.randint(0, 1000, (ROWS, 4))
        loss = F.cross_entropy(model(words), words[:, 0] % CLASSES)
        sparse.zero_grad()
        dense.zero_grad()
        loss.backward()
        sparse.step()
        dense.step()
        return [loss]

    return Training(step, [model])


def nested(layout: torch.layout) -> Training:
    """Texts of several lengths as one nested tensor between two dense stacks."""
    model = nn.ModuleDict(
        {"before": Stack(), "linear": nn.Linear(WIDTH, WIDTH), "after": Stack(blocks=2)}
    )

    def loss(_: int) -> Tensor:
        x, labels = batch()
        lengths = list(range(100, 196, 6))
        texts = model["before"].features(x)[: sum(lengths)].split(lengths)
        ragged = torch.nested.as_nested_tensor(list(texts), layout=layout)
        ragged = F.gelu(model["linear"](ragged)).sin() * ragged
        dense = torch.nested.to_padded_tensor(ragged, 0.0, (16, 200, WIDTH)).flatten(0, 1)
        return F.cross_entropy(model["after"](dense), labels[: len(dense)])

    return supervised(model, loss)


PROGRAMS = {
    "nested_strided": Program(lambda: nested(torch.strided)),
    "nested_jagged": Program(lambda: nested(torch.jagged)),
    "sparse_coo": Program(stacked(lambda: MultipliesSparse(torch.sparse_coo))),
    "sparse_csr": Program(stacked(lambda: MultipliesSparse(torch.sparse_csr))),
    "sparse_learnt": Program(stacked(LearnsEdges)),
    "sparse_gradients": Program(sparse_gradients),
}
