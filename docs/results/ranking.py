"""What the page on sentence-transformers shows: a short training with each correction."""

from statistics import mean
from typing import Any

from results.words import OTHER_DIGITS, markdown, percent, with_results


def ranking_page(text: str, record: dict[str, Any]) -> str:
    """The same page with its results from the record."""
    settings = record["settings"]
    pairs = settings["intents"] * settings["pairs"]
    steps = settings["epochs"] * (pairs // settings["batch_size"])
    layers = settings["layers"]
    trained = "its last layer" if layers == 1 else f"its last {layers} layers"
    lines = [
        "",
        f"A MiniLM ({trained}) on {pairs} pairs of {settings['intents']} intents of CLINC150, {steps} steps of "
        f"{settings['batch_size']} pairs at scale {settings['scale']:g}, with the trainer of sentence-transformers "
        f"{record['versions']['sentence-transformers']}. Each test request searches for the others of its intent. No "
        "text is in two pairs, so nothing is known but the pairs; the last row knows the intents. Corrections with a "
        f"prior have the true one, 1/{settings['intents']}; `ratio` and `glofnd` correct from the second epoch on. "
        f"Made by `{record['command']}`. {OTHER_DIGITS}",
        "",
        *ranking_table(record),
        "",
        verdict(record),
        "",
        "What corrections that learn reported at the end:",
        "",
        *[f"- {each['row']}: {each['report']}" for each in record["trainings"] if each["report"]],
        "",
    ]
    return with_results(text, lines)


def ranking_table(record: dict[str, Any]) -> list[str]:
    """One row for each loss, as means over seeds."""
    header = [
        "loss",
        "mAP, %",
        "recall at 1, %",
        "loss, first epoch",
        "loss, last epoch",
        "floored, last",
        "tau', last",
    ]
    table = []
    for row, runs in by_row(record).items():
        cells = [row, f"{100 * mean(run['mean_average_precision'] for run in runs):.1f}"]
        cells += [f"{100 * mean(run['recall_at_1'] for run in runs):.1f}"]
        for name, place in (("losses", 0), ("losses", -1), ("floored", -1), ("tau_plus", -1)):
            values = [run[name][place] for run in runs if run[name]]
            shown = percent(mean(values)) if name == "floored" and values else f"{mean(values):.3f}" if values else ""
            cells.append(shown)
        table.append(cells)
    return markdown(header, table)


def by_row(record: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The trainings of each row."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for training in record["trainings"]:
        rows.setdefault(training["row"], []).append(training)
    return rows


def all_above(record: dict[str, Any]) -> bool:
    """Whether every training is above the untrained model of its seed."""
    untrained = {each["seed"]: each["mean_average_precision"] for each in by_row(record)["untrained"]}
    return all(
        each["mean_average_precision"] > untrained[each["seed"]]
        for each in record["trainings"]
        if each["row"] != "untrained"
    )


def verdict(record: dict[str, Any]) -> str:
    """Whether all rows have learnt, and what that shows."""
    seeds = record["settings"]["seeds"]
    which = "All" if all_above(record) else "Not all"
    shows = "One seed shows whether a correction learns at this scale, not which one is best." if seeds == 1 else ""
    return f"{which} rows are above the untrained model. {shows or f'The numbers are means over {seeds} seeds.'}"
