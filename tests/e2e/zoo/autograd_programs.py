"""What users do with autograd itself."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo import Program, Training
from zoo.hook_programs import PROGRAMS as HOOKS
from zoo.own_functions import Dirtying, Saving, Selecting, SinCos, Unmaterialised
from zoo.stack import WIDTH, Stack, batch, momentum, stacked
from zoo.writing_blocks import (
    ReadsViews,
    WritesElements,
    WritesElementsElsewhere,
    WritesParameters,
    WritesThroughViews,
)

Loss = Callable[[Stack, Tensor, Tensor], list[Tensor]]


def stepping(run: Loss, model: Callable[[], Stack] = Stack) -> Callable[[], Training]:
    """`run` does the forward and backward passes of a step."""

    def make() -> Training:
        net = model()
        optimizer = momentum(net)

        def step(_: int) -> list[Tensor]:
            optimizer.zero_grad()
            values = run(net, *batch())
            optimizer.step()
            return values

        return Training(step, [net])

    return make


def retains_graph(net: Stack, x: Tensor, labels: Tensor) -> list[Tensor]:
    loss = F.cross_entropy(net(x), labels)
    loss.backward(retain_graph=True)
    (again,) = torch.autograd.grad(loss, net.head.weight, retain_graph=True)
    loss.backward()
    return [loss, again]


def penalises_gradients(net: Stack, x: Tensor, labels: Tensor) -> list[Tensor]:
    """As WGAN-GP: of a critic's score, at its input."""
    x.requires_grad_()
    score = net(x)[:, 0]
    (gradient,) = torch.autograd.grad(score.sum(), x, create_graph=True)
    penalty = (gradient.norm(dim=1) - 1).square().mean()
    (score.mean() + 10 * penalty).backward()
    return [penalty]


def several_losses(net: Stack, x: Tensor, labels: Tensor) -> list[Tensor]:
    features = net.features(x)
    first = F.cross_entropy(net.head(features), labels)
    second = F.mse_loss(features, x)
    third = features.tanh().mean()
    second.backward(retain_graph=True)
    torch.autograd.backward([first, third], [torch.tensor(0.5), torch.tensor(2.0)])
    return [first, second, third]


class Shifts(nn.Module):
    """Sums save nothing: autograd lets a bias be written before their backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Parameter(torch.zeros(WIDTH)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(F.gelu(x + self.first) + self.second)


def updates_between_losses() -> Training:
    """The first loss moves the biases that the second one's graph was made with."""
    net = Stack(Shifts, blocks=6)
    optimizer = momentum(net.blocks)

    def step(_: int) -> list[Tensor]:
        x, labels = batch()
        features = net.features(x)
        first, second = (
            F.mse_loss(features, x.roll(1, 1)),
            F.cross_entropy(features[:, :5], labels % 5),
        )
        for loss in (first, second):
            optimizer.zero_grad()
            loss.backward(retain_graph=loss is first)
            optimizer.step()
        return [first, second]

    return Training(step, [net])


def hessian_times_vector(net: Stack, x: Tensor, labels: Tensor) -> list[Tensor]:
    """By hand, of the parameters; the product is the gradient that is stepped along."""
    parameters = list(net.parameters())
    loss = F.cross_entropy(net(x), labels)
    gradients = torch.autograd.grad(loss, parameters, create_graph=True)
    vectors = [torch.randn_like(one) for one in parameters]
    product = sum((one * vector).sum() for one, vector in zip(gradients, vectors, strict=True))
    product.backward()
    return [loss, product, *gradients]


def functional_hessian(net: Stack, x: Tensor, labels: Tensor) -> list[Tensor]:
    def loss(weight: Tensor) -> Tensor:
        logits = F.linear(net.features(x), weight)
        return F.cross_entropy(logits, labels)

    weight = net.head.weight.detach()
    _, product = torch.autograd.functional.hvp(loss, weight, torch.ones_like(weight))
    _, other = torch.autograd.functional.vhp(loss, weight, torch.ones_like(weight))
    value = F.cross_entropy(net(x), labels)
    value.backward()
    return [value, product, other]


def asks_for_gradients() -> Training:
    """autograd.grad and an update by hand, no optimizer and no .grad."""
    net = Stack()
    unused = nn.Parameter(torch.ones(1))

    def step(index: int) -> list[Tensor]:
        x, labels = batch()
        logits = net(x)
        loss = F.cross_entropy(logits, labels)
        parameters = [*net.parameters(), unused]
        some = torch.autograd.grad(
            logits, net.head.weight, grad_outputs=torch.ones_like(logits), retain_graph=True
        )
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                if gradient is not None:
                    parameter -= 0.01 * gradient
        return [loss, *some, *gradients[:-1]]

    return Training(step, [net])


def second_order_of_own_function(net: Stack, x: Tensor, labels: Tensor) -> list[Tensor]:
    x.requires_grad_()
    loss = F.cross_entropy(net(SinCos.apply(x)[0]), labels)
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    (loss + gradient.square().sum()).backward()
    return [loss, gradient.sum()]


def detects_anomalies(net: Stack, x: Tensor, labels: Tensor) -> list[Tensor | str]:
    """A pass that gives NaN is refused and left out."""
    said = ""
    with torch.autograd.detect_anomaly():
        try:
            (net(x).square() * 0).sqrt().mul(0).sum().backward()
        except RuntimeError as error:
            said = str(error)
        net.zero_grad()
        loss = F.cross_entropy(net(x), labels)
        loss.backward()
    assert "nan values" in said
    return [loss, said]


def keeps_gradients_zero() -> Training:
    """Gradients stay allocated: set_to_none=False."""
    net = Stack()
    optimizer = momentum(net)

    def step(index: int) -> list[Tensor]:
        x, labels = batch()
        loss = F.cross_entropy(net(x), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return [loss]

    return Training(step, [net])


def truncated() -> Training:
    """Backpropagation through 12 of a sequence's steps at a time; the state goes on detached."""
    cell, head = nn.LSTMCell(64, WIDTH), nn.Linear(WIDTH, 64)
    model = nn.ModuleList([cell, head])
    optimizer = momentum(model)
    carried = [torch.zeros(512, WIDTH), torch.zeros(512, WIDTH)]

    def step(index: int) -> list[Tensor]:
        words = torch.randn(13, 512, 64)
        hidden, memory = (one.detach() for one in carried)
        loss = torch.zeros(())
        for now, following in zip(words[:-1], words[1:], strict=True):
            hidden, memory = cell(now, (hidden, memory))
            loss = loss + F.mse_loss(head(hidden), following)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        carried[:] = hidden, memory  # with the graph of this step
        return [loss, hidden, memory]

    return Training(step, [model])


def remembers() -> Training:
    """Attends to the detached features of the last two steps, which this step had saved too."""
    net = Stack()
    optimizer = momentum(net)
    bank: list[Tensor] = []

    def step(index: int) -> list[Tensor]:
        x, labels = batch()
        features = torch.tanh(net.features(x))
        loss = F.cross_entropy(net.head(features.sin()), labels)
        for old in bank:
            loss = loss + (features * old).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bank.append(features.detach())
        del bank[:-2]
        return [loss]

    return Training(step, [net], lambda: ((str(i), one) for i, one in enumerate(bank)))


PROGRAMS = {
    "in_place": Program(stacked(WritesElements)),
    "in_place_elsewhere": Program(stacked(WritesElementsElsewhere)),
    "in_place_parameters": Program(stacked(WritesParameters)),
    "views": Program(stacked(ReadsViews)),
    "writes_through_views": Program(stacked(WritesThroughViews)),
    "own_function": Program(stacked(Saving)),
    "own_function_mark_dirty": Program(stacked(Dirtying)),
    "own_function_other_outputs": Program(stacked(Selecting)),
    "own_function_unmaterialised": Program(stacked(Unmaterialised)),
    "own_function_twice_differentiated": Program(
        stepping(second_order_of_own_function), fraction=0.3
    ),
    "retain_graph": Program(stepping(retains_graph)),
    "gradient_penalty": Program(stepping(penalises_gradients), fraction=0.3),
    "several_losses": Program(stepping(several_losses)),
    "updates_between_losses": Program(updates_between_losses),
    "autograd_grad": Program(asks_for_gradients),
    "hessian_vector_product": Program(stepping(hessian_times_vector), fraction=0.1),
    "functional_hessian": Program(stepping(functional_hessian)),
    "anomaly_mode": Program(stepping(detects_anomalies)),
    "set_to_none_false": Program(keeps_gradients_zero),
    "truncated_bptt": Program(truncated),
    "memory_bank": Program(remembers),
    **HOOKS,
}
