"""Residual networks for images of any size, above all for small ones."""

from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

from pucl.shapes import Float, Tensor

Stem = Literal["small", "half", "ordinary"]
"""The first layers: `small` keeps the resolution (3 x 3, stride 1), `half` halves it (4 x 4, stride 2), so that all
later layers need a quarter of the work, `ordinary` quarters it (7 x 7, stride 2, max pool)."""

STEMS: dict[Stem, tuple[int, int]] = {"small": (3, 1), "half": (4, 2), "ordinary": (7, 2)}
"""Kernel and stride of the first convolution."""

MEMORY_FORMAT = torch.channels_last
"""The memory format of activations: the channels of a pixel are adjacent.

Convolutions on a CPU are faster in this format than in torch's default; `python -m benchmarks train` measures by how
much. Parameters keep torch's default format.
"""


class BasicBlock(nn.Module):
    r"""Two 3 x 3 convolutions beside a shortcut: :math:`y = \mathrm{relu}(x + f(x))`. The first has the stride.

    Shapes:
        [batch, inputs, height, width] to [batch, planes, height / stride, width / stride], rounded up.
    """

    expansion = 1

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _convolution(inputs, planes, 3, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = _convolution(planes, planes, 3)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = _shortcut(inputs, planes, stride)

    def forward(self, x: Float[Tensor, "batch inputs high wide"]) -> Float[Tensor, "batch planes low narrow"]:
        """Add the shortcut and the output of the convolutions."""
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += x if self.downsample is None else self.downsample(x)
        return F.relu(y, inplace=True)


class Bottleneck(nn.Module):
    r"""A 3 x 3 convolution between two 1 x 1 convolutions, which narrow and widen, beside a shortcut.

    The stride is in the 3 x 3 convolution, as in torchvision (and not in the first, as in the paper).

    Shapes:
        [batch, inputs, height, width] to [batch, 4 * planes, height / stride, width / stride], rounded up.
    """

    expansion = 4

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        outputs = planes * self.expansion
        self.conv1 = _convolution(inputs, planes, 1)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = _convolution(planes, planes, 3, stride)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = _convolution(planes, outputs, 1)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = _shortcut(inputs, outputs, stride)

    def forward(self, x: Float[Tensor, "batch inputs high wide"]) -> Float[Tensor, "batch outputs low narrow"]:
        """Add the shortcut and the output of the convolutions."""
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        y += x if self.downsample is None else self.downsample(x)
        return F.relu(y, inplace=True)


class ResNet(nn.Module):
    r"""A residual network without its classifier: it maps images to one vector each.

    A stem, then stages of blocks, then the mean over all pixels of the last stage, or of each of the last few. Stage
    :math:`i = 0, 1, \dots` has :math:`2^i` times `width` planes, and each but the first halves the resolution.
    Parameters have torchvision's names (conv1, bn1, layer1.0.conv1, ..., layer2.0.downsample.0), so that weights can
    be exchanged. There is no `fc`, and conv1 is 3 x 3 with the stem `small` and 4 x 4 with `half`.

    Args:
        block: `BasicBlock` or `Bottleneck`.
        depths: Blocks of each stage.
        stem: The first layers; see `Stem`.
        in_channels: Channels of the images: 3, or 1 and 2 for the two views of CMC.
        width: Planes of the first stage.
        scales: How many of the last stages give features. Their means stand side by side. A short training leaves much
            in earlier stages that the last one has not learnt to keep.

    Shapes:
        [batch, in_channels, height, width] to [batch, features]; any height and width.

    Reference:
        He et al., Deep Residual Learning for Image Recognition, CVPR 2016.

    Example:
        >>> encoder = ResNet(BasicBlock, (1, 1, 1), width=32)
        >>> encoder.features, encoder(torch.zeros(2, 3, 32, 32)).shape
        (128, torch.Size([2, 128]))
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: tuple[int, ...],
        *,
        stem: Stem = "small",
        in_channels: int = 3,
        width: int = 64,
        scales: int = 1,
    ) -> None:
        super().__init__()
        if stem not in STEMS:
            raise ValueError(
                f"stem names the first layers of the network: expected one of {', '.join(STEMS)}, got {stem}"
            )
        if in_channels < 1:
            raise ValueError(
                f"in_channels is the number of channels of an image: expected at least 1, got {in_channels}"
            )
        if width < 1:
            raise ValueError(f"width is the number of planes of the first stage: expected at least 1, got {width}")
        if not 1 <= scales <= len(depths):
            raise ValueError(
                f"scales is the number of stages that give features: expected 1 to {len(depths)}, got {scales}"
            )
        self.stem = stem
        self.in_channels = in_channels
        self.conv1 = _convolution(in_channels, width, *STEMS[stem])
        self.bn1 = nn.BatchNorm2d(width)
        self.stages: list[str] = []
        self.scales = scales
        outputs = []
        inputs = width
        for i, depth in enumerate(depths):
            planes = width * 2**i
            blocks = []
            for j in range(depth):
                blocks.append(block(inputs, planes, stride=2 if i > 0 and j == 0 else 1))
                inputs = planes * block.expansion
            outputs.append(inputs)
            self.stages.append(f"layer{i + 1}")
            self.add_module(self.stages[-1], nn.Sequential(*blocks))
        self.features = sum(outputs[-scales:])
        self.memory_format = MEMORY_FORMAT
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch features"]:
        """The features of images, not normalised."""
        x = self.conv1(images.contiguous(memory_format=self.memory_format))
        # Images with one channel have both formats at once, and the convolution then uses the default one.
        x = x.contiguous(memory_format=self.memory_format)
        x = F.relu(self.bn1(x), inplace=True)
        if self.stem == "ordinary":
            x = F.max_pool2d(x, 3, stride=2, padding=1)
        means = []
        for stage in self.stages:
            x = self.get_submodule(stage)(x)
            if stage in self.stages[-self.scales :]:
                means.append(F.adaptive_avg_pool2d(x, 1).flatten(1))
        return torch.cat(means, dim=1)


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution without bias, since a batch norm follows; padded so that only the stride changes the resolution."""
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=(kernel - 1) // 2, bias=False)


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    """A layer that maps the input to the shape of the output; None if it has that shape."""
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(_Pointwise(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


class _Pointwise(nn.Conv2d):
    """A 1 x 1 convolution with a stride, which drops pixels before the convolution.

    In oneDNN the backward pass of a strided 1 x 1 convolution writes beyond its memory, for few channels and images of
    56 pixels or more. It crashes, or corrupts data.
    """

    def forward(self, input: Float[Tensor, "batch channel high wide"]) -> Float[Tensor, "batch plane low narrow"]:  # noqa: A002 (torch's name)
        high, wide = self.stride
        return F.conv2d(input[:, :, ::high, ::wide], self.weight)
