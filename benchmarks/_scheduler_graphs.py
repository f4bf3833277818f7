"""Graphs for benchmarks/scheduler.py: layered ones, a transformer, branching networks."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path

# --- moccasin2023: random layered graphs ----------------------------------------------------------


def layered(path: Path, nodes: int = 1000, edges: int = 5900, seed: int = 0) -> None:
    """A random layered graph in moccasin2023's own form.

    The names of its published graphs give the parameters (width over depth 0.43, variation of the
    layers' widths 0.75, 14 % of the edges skip layers); their files give the distributions: sizes
    of half a normal distribution with mean 2040, durations even below 1000.
    """
    rng = random.Random(seed)
    layers = _layers(rng, nodes)
    links = {(rng.choice(before), node) for before, node in _each_after_first(layers)}
    links |= {(node, rng.choice(after)) for node, after in _each_before_last(layers)}
    while len(links) < 0.86 * edges:
        first = rng.randrange(len(layers) - 1)
        links.add((rng.choice(layers[first]), rng.choice(layers[first + 1])))
    while len(links) < edges:
        first = rng.randrange(1, len(layers) - 3)
        second = rng.randrange(first + 2, len(layers) - 1)
        links.add((rng.choice(layers[first]), rng.choice(layers[second])))
    node_rows = [
        {
            "id": node,
            "name": str(node),
            "out_cost": max(10, round(abs(rng.gauss(0, 2557)), -1)),
            "duration": 0 if node in (0, nodes - 1) else rng.randrange(1000),
        }
        for node in range(nodes)
    ]
    graph = {
        "directed": True,
        "multigraph": False,
        "graph": {"order": _topological_order(rng, nodes, links)},
        "nodes": node_rows,
        "links": [{"source": a, "target": b} for a, b in sorted(links)],
    }
    path.write_text(json.dumps(graph))


def _layers(rng: random.Random, nodes: int) -> list[list[int]]:
    width = sqrt(nodes * 0.43)
    layers, used = [[0]], 1
    while used < nodes - 1:
        size = max(1, round(width * (1 + 0.75 * rng.uniform(-1, 1))))
        size = min(size, nodes - 1 - used)
        layers.append(list(range(used, used + size)))
        used += size
    return [*layers, [nodes - 1]]


def _each_after_first(layers: list[list[int]]) -> Iterator[tuple[list[int], int]]:
    for before, layer in zip(layers, layers[1:], strict=False):
        for node in layer:
            yield before, node


def _each_before_last(layers: list[list[int]]) -> Iterator[tuple[int, list[int]]]:
    for layer, after in zip(layers, layers[1:], strict=False):
        for node in layer:
            yield node, after


def _topological_order(rng: random.Random, nodes: int, links: set[tuple[int, int]]) -> list[int]:
    after: list[list[int]] = [[] for _ in range(nodes)]
    missing = [0] * nodes
    for first, second in sorted(links):
        after[first].append(second)
        missing[second] += 1
    ready = [node for node in range(nodes) if missing[node] == 0]
    order = []
    while ready:
        node = ready.pop(rng.randrange(len(ready)))
        order.append(node)
        for second in after[node]:
            missing[second] -= 1
            if missing[second] == 0:
                ready.append(second)
    return order


# --- a training step of a transformer, in the real model ------------------------------------------


@dataclass
class _Step:
    """Forward ops as they come, and the backward events that read what they saved."""

    ops: list[dict] = field(default_factory=list)
    values: list[dict] = field(default_factory=list)
    events: list[dict] = field(default_factory=list)
    fixed: int = 0

    def value(self, size: int, **more: object) -> int:
        self.values.append({"bytes": size, **more})
        return len(self.values) - 1

    def op(self, name: str, inputs: list[int], sizes: list[int], flop: float, saved: list[int]):
        """`saved`: places among inputs and outputs. Returns the ids of the outputs."""
        outputs = [self.value(size) for size in sizes]
        moved = sum(self.values[v]["bytes"] for v in inputs + outputs if not self._pinned(v))
        duration = round(5000 + flop / 1e5 + moved / 1.5e3)  # ns; 100 TFLOP/s, 1.5 TB/s
        for read in inputs:
            if not self._pinned(read):
                self.values[read]["natural_last"] = len(self.ops)
        row = {"name": name, "duration_ns": duration, "fixed_bytes": self.fixed}
        self.ops.append(row | {"rerunnable": True, "inputs": inputs, "outputs": outputs})
        reads = [(inputs + outputs)[place] for place in saved]
        event = {"name": name + "_backward", "duration_ns": 2 * duration, "backward": True}
        self.events.append(event | {"inputs": reads, "outputs": []})
        return outputs

    def _pinned(self, value: int) -> bool:
        return self.values[value].get("pinned", False)


OPS_PER_LAYER = 17


def transformer(path: Path, forward_ops: int) -> int:
    """A GPT's step, 17 forward ops a layer. Returns the bytes that no plan can change."""
    batch, tokens, width, heads = 8, 1024, 768, 12
    rows = batch * tokens
    hidden, square = 2 * rows * width, 2 * batch * heads * tokens * tokens  # half precision
    dense, mix = 2.0 * rows * width * width, 2.0 * rows * tokens * width
    layers = -(-forward_ops // OPS_PER_LAYER)
    parameters = 12 * width * width * layers
    step = _Step(fixed=16 * parameters)  # weights, gradients, two moments
    weight = step.value(2 * parameters, pinned=True)

    def one(name: str, inputs: list[int], size: int, flop: float, saved: list[int]) -> int:
        return step.op(name, inputs, [size], flop, saved)[0]

    def dropout(read: int) -> int:
        size = step.values[read]["bytes"]
        return step.op("dropout", [read], [size, size // 2], 0, [2])[0]

    def norm(read: int) -> int:
        return step.op("layer_norm", [read], [hidden, rows * 4, rows * 4], 0, [0, 2, 3])[0]

    x = step.value(hidden)
    for _ in range(layers):
        qkv = one("qkv", [norm(x), weight], 3 * hidden, 3 * dense, [0, 1])
        scores = one("scores", [qkv], square, mix, [0])
        masked = one("masked_fill_", [scores], square, 0, [])
        step.values[scores]["overwritten_by"] = len(step.ops) - 1
        step.values[masked]["previous_epoch"] = scores
        weights = dropout(one("softmax", [masked], square, 0, [1]))
        mixed = one("contiguous", [one("mix", [weights, qkv], hidden, mix, [0, 1])], hidden, 0, [])
        out = dropout(one("proj", [mixed, weight], hidden, dense, [0, 1]))
        middle = one("add", [x, out], hidden, 0, [])
        wide = one("fc", [norm(middle), weight], 4 * hidden, 4 * dense, [0, 1])
        narrow = one(
            "fc2", [one("gelu", [wide], 4 * hidden, 0, [0]), weight], hidden, 4 * dense, [0]
        )
        x = one("add", [middle, dropout(narrow)], hidden, 0, [])
    fixed = step.fixed + 2 * hidden  # gradients of activations
    ops = step.ops + [event | {"fixed_bytes": fixed} for event in reversed(step.events)]
    path.write_text(json.dumps({"format": "ebbtide-graph-1", "ops": ops, "values": step.values}))
    return fixed


# --- kusumoto2019: networks as functions ----------------------------------------------------------


@dataclass
class _Network:
    """Forward functions with one output each, in the text form of kusumoto2019's authors."""

    sizes: list[int] = field(default_factory=lambda: [4 << 20])  # variable 0 is the input
    functions: list[tuple[str, list[int]]] = field(default_factory=list)  # function i makes i + 1

    def add(self, kind: str, inputs: list[int], size: int) -> int:
        self.sizes.append(size)
        self.functions.append((kind, inputs))
        return len(self.functions)

    def conv(self, read: int, size: int) -> int:
        """Convolution, normalisation, activation."""
        made = self.add("Convolution2DFunction", [read], size)
        return self.add("ReLU", [self.add("BatchNormalization", [made], size)], size)

    def write(self, path: Path) -> None:
        lines = [f"{len(self.sizes)} {len(self.functions)}"]
        lines += [f"{i} {size} _" for i, size in enumerate(self.sizes)]
        for rank, (kind, inputs) in enumerate(self.functions):
            lines += ["forward", f"{len(inputs)} 1"]
            lines += [f"{read} in" for read in inputs]
            lines += [str(rank + 1), kind, json.dumps({"rank": rank})]
        path.write_text("\n".join(lines) + "\n")


def residual(path: Path, nodes: int, tail: int = 0) -> None:
    """Bottleneck blocks as in ResNet; `tail`: parallel pooled branches at the end, as in PSPNet."""
    net = _Network()
    x, block = 0, 0
    last = nodes - 5 * tail - (1 if tail else 0)
    while len(net.functions) + 11 <= last:
        size = (8 << 20) >> min(3, 4 * block * 11 // nodes)
        y = net.conv(net.conv(net.conv(x, size // 4), size // 4), size)
        x = net.add("ReLU", [net.add("Add", [x, y], size)], size)
        block += 1
    while len(net.functions) < last:
        x = net.add("ReLU", [x], net.sizes[x])
    branches = []
    for _ in range(tail):
        pooled = net.conv(net.add("AveragePooling2D", [x], net.sizes[x] // 16), net.sizes[x] // 64)
        branches.append(net.add("ResizeImages", [pooled], net.sizes[x]))
    if branches:
        net.add("Concat", [x, *branches], net.sizes[x] * (1 + tail))
    net.write(path)


def dense(path: Path, nodes: int) -> None:
    """Blocks of 12 layers that each read all before them in the block, as in DenseNet."""
    net = _Network()
    x = 0
    while len(net.functions) + 7 * 12 + 2 <= nodes:
        parts = [x]
        for _ in range(12):
            joined = net.add("Concat", list(parts), sum(net.sizes[p] for p in parts))
            made = net.conv(net.conv(joined, 1 << 20), 1 << 19)
            parts.append(made)
        x = net.add("Concat", parts, sum(net.sizes[p] for p in parts))
        x = net.add("AveragePooling2D", [x], 4 << 20)
    while len(net.functions) < nodes:
        x = net.add("ReLU", [x], net.sizes[x])
    net.write(path)


BATCH = 8


class _ImageNetwork(_Network):
    """Functions over batches of square images, in half as many lines."""

    def image(self, kind: str, inputs: list[int], channels: int, width: int) -> int:
        return self.add(kind, inputs, 4 * BATCH * channels * width * width)

    def normalised(self, read: int, channels: int, width: int) -> int:
        made = self.image("Convolution2DFunction", [read], channels, width)
        return self.image("BatchNormalization", [made], channels, width)

    def activated(self, read: int, channels: int, width: int) -> int:
        return self.image("ReLU", [self.normalised(read, channels, width)], channels, width)


def resnet152(path: Path) -> None:
    """ResNet-152 on 224 x 224 pixels: 516 functions, as in Table 1 of kusumoto2019."""
    net = _ImageNetwork()
    width = 56
    x = net.image("MaxPooling2D", [net.activated(0, 64, 112)], 64, width)
    for stage, blocks in enumerate((3, 8, 36, 3)):
        if stage > 0:
            width //= 2
        channels = 256 << stage
        for block in range(blocks):
            y = net.activated(net.activated(x, channels // 4, width), channels // 4, width)
            y = net.normalised(y, channels, width)
            shortcut = net.normalised(x, channels, width) if block == 0 else x
            x = net.image("Add", [y, shortcut], channels, width)
            x = net.image("ReLU", [x], channels, width)
    x = net.image("AveragePooling2D", [x], 2048, 1)
    x = net.image("LinearFunction", [net.image("Reshape", [x], 2048, 1)], 1000, 1)
    net.add("SoftmaxCrossEntropy", [x], 4)
    net.write(path)


def densenet161(path: Path) -> None:
    """DenseNet-161 on 224 x 224 pixels: 567 functions, 568 in Table 1 of kusumoto2019."""
    net = _ImageNetwork()
    width, channels, growth = 56, 96, 48
    x = net.image("MaxPooling2D", [net.activated(0, channels, 112)], channels, width)
    for block, layers in enumerate((6, 12, 36, 24)):
        if block > 0:
            x = net.image("BatchNormalization", [x], channels, width)
            x = net.image("ReLU", [x], channels, width)
            channels //= 2
            x = net.image("Convolution2DFunction", [x], channels, width)
            width //= 2
            x = net.image("AveragePooling2D", [x], channels, width)
        for _ in range(layers):
            y = net.image("BatchNormalization", [x], channels, width)
            y = net.image("ReLU", [y], channels, width)
            y = net.activated(y, 4 * growth, width)
            y = net.image("Convolution2DFunction", [y], growth, width)
            channels += growth
            x = net.image("Concat", [x, y], channels, width)
    x = net.image("ReLU", [net.image("BatchNormalization", [x], channels, width)], channels, width)
    x = net.image("AveragePooling2D", [x], channels, 1)
    x = net.image("LinearFunction", [x], 1000, 1)
    net.add("SoftmaxCrossEntropy", [x], 4)
    net.write(path)


def layered_functions(path: Path, nodes: int, width: int, seed: int = 0) -> None:
    """Layers of `width` functions on the average, each reads one to three of the layer before."""
    rng = random.Random(seed)
    net = _Network()
    before = [0]
    while len(net.functions) < nodes:
        size = min(rng.randint(1, 2 * width - 1), nodes - len(net.functions))
        reads = [rng.sample(before, min(len(before), rng.randint(1, 3))) for _ in range(size)]
        for unread in set(before).difference(*reads):  # every one is read by one at least
            rng.choice(reads).append(unread)
        before = [
            net.add(
                "Convolution2DFunction" if rng.random() < 0.3 else "ReLU",
                read,
                rng.randint(1, 1000) << 10,
            )
            for read in reads
        ]
    net.write(path)


def inception(path: Path, modules: int = 9) -> None:
    """GoogLeNet's nine modules of four branches, without normalisation: some 130 nodes."""
    net = _Network()

    def conv(read: int, size: int) -> int:
        return net.add("ReLU", [net.add("Convolution2DFunction", [read], size)], size)

    x = net.add("MaxPooling2D", [conv(conv(0, 16 << 20), 16 << 20)], 8 << 20)
    for module in range(modules):
        size = (8 << 20) >> (module // 3)
        branches = [
            conv(x, size // 4),
            conv(conv(x, size // 8), size // 2),
            conv(conv(x, size // 16), size // 8),
            conv(net.add("MaxPooling2D", [x], size), size // 8),
        ]
        x = net.add("Concat", branches, size)
    net.add("AveragePooling2D", [x], size)
    net.write(path)
