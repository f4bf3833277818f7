"""Torchvision's networks as they are, narrower: random weights, small random images."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models import (
    ConvNeXt,
    DenseNet,
    SwinTransformer,
    VisionTransformer,
    efficientnet_b0,
    mobilenet_v3_large,
)
from torchvision.models._utils import IntermediateLayerGetter
from torchvision.models.convnext import CNBlock, CNBlockConfig
from torchvision.models.densenet import _DenseBlock
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.efficientnet import MBConv
from torchvision.models.mobilenetv3 import InvertedResidual
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet
from torchvision.models.segmentation.deeplabv3 import DeepLabHead, DeepLabV3
from torchvision.models.segmentation.fcn import FCNHead
from torchvision.models.swin_transformer import SwinTransformerBlock
from torchvision.models.vision_transformer import EncoderBlock

from zoo import Program, Training, supervised

CLASSES = 10
RESNET_18, RESNET_50 = [2, 2, 2, 2], [3, 4, 6, 3]  # blocks


class NarrowResNet(ResNet):
    """A quarter as wide."""

    def __init__(self, block: type[nn.Module], layers: list[int], **options: object) -> None:
        super().__init__(block, layers, **options)
        self.conv1 = nn.Conv2d(3, 16, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.fc = nn.Linear(self.inplanes, CLASSES)

    def _make_layer(self, block: type[nn.Module], planes: int, *options, **named) -> nn.Sequential:
        if planes == 64:
            self.inplanes = 16  # what the stem gives
        return super()._make_layer(block, planes // 4, *options, **named)


def classify(make: Callable[[], nn.Module], batch: int, size: int) -> Callable[[], Training]:
    def training() -> Training:
        model = make()

        def loss(_: int) -> Tensor:
            images = torch.randn(batch, 3, size, size)
            return F.cross_entropy(model(images), torch.randint(0, CLASSES, (batch,)))

        return supervised(model, loss)

    return training


def convnext() -> nn.Module:
    widths = (32, 64, 128, 256, None)
    stages = [CNBlockConfig(*each) for each in zip(widths, widths[1:], (3, 3, 9, 3), strict=False)]
    return ConvNeXt(stages, stochastic_depth_prob=0.1, num_classes=CLASSES)


def swin() -> nn.Module:
    return SwinTransformer(
        [4, 4], 48, [2, 2, 6, 2], [3, 6, 12, 24], [7, 7], num_classes=CLASSES, dropout=0.1
    )


def vit() -> nn.Module:
    """ViT-B's twelve layers."""
    return VisionTransformer(64, 8, 12, 4, 128, 512, dropout=0.1, num_classes=CLASSES)


def deeplab() -> Training:
    trunk = NarrowResNet(Bottleneck, RESNET_50, replace_stride_with_dilation=[False, True, True])
    model = DeepLabV3(
        IntermediateLayerGetter(trunk, {"layer4": "out", "layer3": "aux"}),
        DeepLabHead(512, CLASSES),
        FCNHead(256, CLASSES),
    )

    def loss(_: int) -> Tensor:
        images, labels = torch.randn(2, 3, 112, 112), torch.randint(0, CLASSES, (2, 112, 112))
        scores = model(images)
        main, auxiliary = (F.cross_entropy(scores[key], labels) for key in ("out", "aux"))
        return main + 0.5 * auxiliary

    return supervised(model, loss)


def scene(size: int) -> tuple[Tensor, dict[str, Tensor]]:
    """An image with one to three boxes on it."""
    count = int(torch.randint(1, 4, ()))
    corner = torch.rand(count, 2) * size / 2
    boxes = torch.cat([corner, corner + 16 + torch.rand(count, 2) * size / 3], 1)
    return torch.rand(3, size, size), {
        "boxes": boxes,
        "labels": torch.randint(1, CLASSES, (count,)),
    }


def faster_rcnn(sizes: Sequence[int]) -> Training:
    """Which boxes are proposed and sampled is another matter in each step."""
    trunk = NarrowResNet(Bottleneck, RESNET_50)
    stages = {f"layer{stage}": str(stage - 1) for stage in range(1, 5)}
    backbone = BackboneWithFPN(trunk, stages, [64, 128, 256, 512], 64)
    model = FasterRCNN(
        backbone,
        min_size=min(sizes),
        max_size=max(sizes),
        rpn_post_nms_top_n_train=256,
        box_batch_size_per_image=64,
        box_head=TwoMLPHead(64 * 7 * 7, 128),
        box_predictor=FastRCNNPredictor(128, CLASSES),
    )

    def loss(step: int) -> Tensor:
        scenes = [scene(sizes[step % len(sizes)]) for _ in range(4)]
        images, targets = zip(*scenes, strict=True)
        return sum(model(list(images), list(targets)).values())

    return supervised(model, loss)


def program(
    make: Callable[[], Training],
    *blocks: type[nn.Module],
    fraction: float = 0.5,
    varies: bool = False,
) -> Program:
    return Program(make, blocks=blocks, fraction=fraction, varies=varies)


PROGRAMS = {
    # The backward pass of the stem's normalisation alone holds half of its activation bytes.
    "resnet18": program(
        classify(lambda: NarrowResNet(BasicBlock, RESNET_18), 64, 64), BasicBlock, fraction=0.4
    ),
    "resnet50": program(classify(lambda: NarrowResNet(Bottleneck, RESNET_50), 24, 64), Bottleneck),
    "densenet121": program(
        classify(
            lambda: DenseNet(16, num_init_features=32, num_classes=CLASSES, drop_rate=0.1), 16, 64
        ),
        _DenseBlock,
    ),
    "mobilenet_v3": program(
        classify(lambda: mobilenet_v3_large(num_classes=CLASSES), 16, 64), InvertedResidual
    ),
    "efficientnet_b0": program(
        classify(lambda: efficientnet_b0(num_classes=CLASSES), 8, 64), MBConv
    ),
    "convnext_tiny": program(classify(convnext, 16, 64), CNBlock),
    "swin_t": program(classify(swin, 4, 112), SwinTransformerBlock),
    "vit_b": program(classify(vit, 8, 64), EncoderBlock),
    "deeplabv3": program(deeplab, Bottleneck),
    "faster_rcnn": program(lambda: faster_rcnn([128]), Bottleneck, varies=True),
    "faster_rcnn_sizes": program(lambda: faster_rcnn([128, 160]), Bottleneck, varies=True),
}
