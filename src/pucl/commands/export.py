"""Take the encoder of a finished run away, as files that run without pucl.

The directory has

  model.onnx or model.pt  the encoder (ONNX, TorchScript). It takes any number of samples. Images may have any size:
                          resizing and normalisation are inside
  model.safetensors       the weights, for torch and for pucl.load
  config.json             inputs, outputs and the settings of the run
  README.md               a model card made from the run's record: data, framework, correction, results, how to load it

It can be uploaded to Hugging Face's hub as it is; choose a licence in README.md first. The exported encoder is compared
with torch on 1 and on 64 random samples, and refused if a feature differs by more than 1e-5.

Models of sentence-transformers are written as a directory of that library.
"""

import argparse
from pathlib import Path

from pucl.commands.options import add_encoder, braced
from pucl.export import FORMATS, export_run
from pucl.progress import StatusArea
from pucl.texts import say

OWN = "sentence-transformers"
EXAMPLES = (
    "pucl export runs/simclr-digits-pucl-seed-0 --format onnx",
    "pucl export runs/first --format torchscript --floats -o encoder",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl export``."""
    parser.add_argument("run", type=Path, metavar="RUN", help="directory of a finished run")
    formats = [*FORMATS, OWN]
    parser.add_argument(
        "--format",
        choices=formats,
        default="onnx",
        metavar=braced(formats),
        help="format of the encoder (default: %(default)s)",
    )
    out = "directory to write, new or empty (default: the name of RUN and the format)"
    parser.add_argument("-o", "--out", type=Path, metavar="DIR", help=out)
    floats = "images are floats from 0 to 1 (default: bytes from 0 to 255)"
    parser.add_argument("--floats", action="store_true", help=floats)
    add_encoder(parser)


def run(arguments: argparse.Namespace) -> int:
    """Export, and print the files and how well they agree with torch."""
    source: Path = arguments.run
    name = source.resolve().parent.name if source.is_file() else source.resolve().name
    out: Path = arguments.out or Path(f"{name}-{arguments.format}")
    with StatusArea() as area:
        made = export_run(
            source,
            out,
            arguments.format,
            floats=arguments.floats,
            encoder=arguments.encoder,
            report=lambda words: area.show_text(f"pucl export: {words}"),
        )
    say(f"largest difference to torch: {made.difference:.1e}")
    say(f"written to {out}: {', '.join(made.files)}")
    return 0
