"""``python -m benchmarks train``: tables and sentences."""

from benchmarks.subject import Section, Subject
from benchmarks.text import aligned, figure, peak, quartiles, ratio, time
from benchmarks.train import Report, Settings, measure_training

PARTS = ("views", "loss", "optimiser")
"""Parts of a step that have a column each."""


def train_table(report: Report) -> str:
    """A table with one row per framework and encoder."""
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
    """Sentences that sum up the table, and the time of views."""
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
    name="train",
    purpose="time of a training step and its parts compared with the bare encoder, and of views compared with Pillow",
    settings=Settings,
    measure=measure_training,
    show=lambda report: [Section(train_table(report), train_sentences(report))],
)
