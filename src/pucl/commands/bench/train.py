"""``pucl bench train``: its options, and its report for people."""

import argparse

from pucl.benchmarks.train import Report, Settings, measure_training
from pucl.commands.bench.shared import (
    Section,
    Subject,
    add_effort,
    add_memory,
    add_names,
    add_switch,
    aligned,
    figure,
    peak,
    quartiles,
    ratio,
    settings_from,
    time,
)

PARTS = ("views", "loss", "optimiser")
"""Of a step, which have a column each."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Encoders, frameworks, images, and how long."""
    usual = Settings()
    add_names(parser, "--encoders", "which encoders", usual.encoders)
    add_names(parser, "--frameworks", "which of simclr, moco and cmc, each with each encoder", usual.frameworks)
    parser.add_argument(
        "--batch-size", type=int, default=usual.batch_size, metavar="N", help="images in a step (default: %(default)s)"
    )
    parser.add_argument(
        "--size", type=int, default=usual.size, help="side of the images in pixels (default: %(default)s)"
    )
    add_switch(parser, "views", "time views against those that Pillow makes image by image", usual.views)
    add_effort(parser, usual, "each framework is timed with each encoder")
    add_memory(parser, usual.memory)


def train_table(report: Report) -> str:
    """One line for each framework and encoder."""
    columns = [
        ("framework", ""),
        ("encoder", ""),
        ("batch", ""),
        ("step", "ms"),
        ("encoder", "ms"),
        ("step/encoder", "(quartiles)"),
        *[(part, "ms") for part in PARTS],
        ("plain format", "/ channels last"),
        ("step", "images/s"),
        ("step", "peak MB"),
    ]
    rows = [
        [
            row.framework,
            row.encoder,
            str(row.batch),
            time(row.contenders, "step"),
            time(row.contenders, "encoder"),
            ratio(row.ratios, "step/encoder"),
            *[time(row.contenders, part) for part in PARTS],
            ratio(row.ratios, "encoder_plain_format/encoder"),
            figure(row.images_per_second),
            peak(row.contenders, "step"),
        ]
        for row in report.rows
    ]
    return aligned(columns, rows)


def train_sentences(report: Report) -> list[str]:
    """What the table comes to, and what views cost."""
    sentences = []
    for row in report.rows:
        aim = "" if row.aim is None else f"; the aim is {row.aim:g} at most"
        sentences.append(
            f"A step of {row.framework} with {row.encoder} takes {quartiles(row.ratios['step/encoder'])} times as long "
            f"as the bare encoder{aim}."
        )
        step_peak = row.contenders["step"].peak
        if step_peak is not None and step_peak.missing is not None:
            sentences.append(f"No peak of {row.framework} with {row.encoder}: {step_peak.missing}.")
    sentences += [
        f"Views of {cost.batch} images take {figure(cost.ours.median)} ms with {cost.threads} "
        f"thread{'s' if cost.threads > 1 else ''}: {quartiles(cost.speedup)} times as fast as Pillow, image by "
        f"image, with one ({figure(cost.pillow.median)} ms), and {quartiles(cost.lean_speedup)} times as fast as "
        f"Pillow at its leanest ({figure(cost.lean.median)} ms)."
        for cost in report.views
    ]
    if report.views_missing is not None:
        sentences.append(f"Not run: {report.views_missing}.")
    return sentences


TRAIN = Subject(
    purpose="time of a training step and its parts over that of the bare encoder, and of views over Pillow's",
    add_arguments=add_arguments,
    settings=lambda arguments: settings_from(Settings, arguments),
    measure=measure_training,
    show=lambda report: [Section(train_table(report), train_sentences(report))],
)
