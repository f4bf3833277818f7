"""Networks that are neither in torchvision nor in transformers."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo import Program, Training, supervised


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


PROGRAMS = {
    # One fused kernel a layer, whose workspace is most of what is saved.
    "lstm": Program(lambda: language(nn.LSTM), fraction=0.25),
    "gru": Program(lambda: language(nn.GRU)),
}
