"""What all commands that load the encoder of a finished run have in common."""

import argparse


def add_encoder(parser: argparse.ArgumentParser) -> None:
    """Declare which code makes an encoder that is not pucl's: the caller names it, never a file."""
    parser.add_argument(
        "--encoder",
        metavar="PACKAGE.MODULE:CALLABLE",
        help="for runs that were trained with an encoder of your own: what makes it; it is imported and called",
    )
