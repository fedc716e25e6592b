"""From images to vectors: residual networks, the user's own modules, and the heads between them and a loss."""

from pucl.encoders.heads import HEADS, linear_head, make_head, mlp_head, simclr_head
from pucl.encoders.registry import ARCHITECTURES, Adopted, Encoder, EncoderSource, is_foreign, make_encoder
from pucl.encoders.resnet import MEMORY_FORMAT, BasicBlock, Bottleneck, ResNet, Stem

__all__ = [
    "ARCHITECTURES",
    "HEADS",
    "MEMORY_FORMAT",
    "Adopted",
    "BasicBlock",
    "Bottleneck",
    "Encoder",
    "EncoderSource",
    "ResNet",
    "Stem",
    "is_foreign",
    "linear_head",
    "make_encoder",
    "make_head",
    "mlp_head",
    "simclr_head",
]
