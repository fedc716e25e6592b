"""Find sizes of CIFAR at which false negatives cost retrieval: ``python -m study.size``.

At each size plain and the oracle are trained with three seeds, and tested on validation images. A size is worth
measuring if the oracle leads by more than chance. After an interruption the same command continues.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from pucl.commands.experiments import add_experiment, finish, print_table
from pucl.config import ORACLE, PLAIN
from pucl.runs.tables import Part
from study.command import command_line, exit_code_of, names_of, parser_of
from study.plan import SIDE_OF_CIFAR, SIZES_OF_CIFAR10, YARDSTICK, Subject, small_images

SIZES = ((2000, 40), (1000, 80), (500, 160))
"""Images and epochs, with the same product: fewer images are met more often."""

TEMPERATURE = 0.2  # Between those of the references, 0.1 and 0.5.
SEEDS = 3


def part_of(framework: str, data: str, images: int, epochs: int) -> Part:
    """Plain and the oracle at one size."""
    size = small_images(framework, side=SIDE_OF_CIFAR, images=images, epochs=epochs)
    subject = Subject(framework=framework, data=data, seeds=SEEDS, **size)
    return Part(
        name=f"{subject.name}-{images}",
        rows={
            row: subject.config(row, TEMPERATURE, validation=True, probes=f"{YARDSTICK},knn") for row in (PLAIN, ORACLE)
        },
        base=PLAIN,
        seeds=SEEDS,
        note=f"{images:,} images, {epochs} epochs, temperature {TEMPERATURE:g}",
        yardstick=YARDSTICK,
    )


PARTS = {
    part.name: part
    for data in ("cifar10", "cifar100")
    for framework in SIZES_OF_CIFAR10
    for part in (part_of(framework, data, *size) for size in SIZES)
}
"""What is looked at, by name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, print the table, and return the exit code: 0 done, 1 a run failed, 2 wrong usage."""
    parser = parser_of("study.size", __doc__)
    parser.add_argument(
        "--parts", default=",".join(PARTS), metavar="NAME,...", help=f"some of {', '.join(PARTS)} (default: all)"
    )
    add_experiment(parser, out="runs/study-size")
    parsed = parser.parse_args(arguments)
    parsed.command_line = command_line("study.size", arguments)

    def work() -> int:
        names = names_of(parsed.parts, "part", PARTS)
        out = parsed.out or Path("runs/study-size")
        table = print_table([PARTS[name] for name in names], out, parsed)
        return finish(out, parsed, table.failed)

    return exit_code_of("study.size", work)


if __name__ == "__main__":
    sys.exit(main())
