"""What known positives and corrections are worth on real pairs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pucl.evaluation import known_numbers
from pucl.runs.rows import TableRow, share_of_lead
from results.words import OTHER_DIGITS, interval, markdown, rows_of

YARDSTICK, PLAIN, ORACLE, GROUPS, AUTO, CONTROL = "retrieval", "plain", "oracle", "groups", "auto", "one-of-four"
OTHERS = ("retrieval_recall_1", "retrieval_recall_10", "retrieval_ndcg_10")
"""The numbers beside the yardstick."""

ESTIMATED = ("deb", "ratio", AUTO)
"""The rows with a tau': the first one was given the truth."""

MEANINGS = {
    "untrained": "the model before training",
    PLAIN: "one known positive for each anchor",
    CONTROL: "four known positives, one at a time, as plain pairs",
    GROUPS: "four known positives at once: in the numerator, and never among the negatives",
    "deb": "the debiased loss, given the true share of hidden positives",
    "pucl": "the paper's loss, given the true share, c 0.1",
    "hard": "the hard loss, given the true share, beta 1",
    "ratio": "weights 1 - r(s), tau' estimated",
    AUTO: "communities found in training, nothing given",
    "groups-ratio": "four known positives, and ratio",
    "groups-auto": "four known positives, and auto",
    "guide": "pairs are left out that the untrained model finds closer than the anchor's positive, as in GIST",
    ORACLE: "false negatives are left out",
    "supcon": "false negatives are attracted",
}


def pairs_page(record: dict[str, Any]) -> str:
    """docs/pairs.md from records/pairs/pairs.json."""
    subjects = record["data"]
    lines = [
        "# Real pairs",
        "",
        f"Made by `{record['command']}` with torch {record['torch']}, one thread. A pair is two different texts of one "
        "class, or a user and a clicked item. So known positives look like hidden ones. Which texts, pairs and clicks "
        "are known, is drawn by the seed, and stays the same in a training. The temperature of each row was chosen on "
        "validation samples with one seed. Then each row was trained at its temperature, and measured on test samples "
        f"by retrieval; *held out* are classes, or items, that nothing was trained on. Differences to {PLAIN} are "
        "taken seed by seed, with 95 % intervals (bold: more than chance). *Closed* is the difference of a row, "
        f"divided by that of the {ORACLE}. {OTHER_DIGITS}",
        "",
        *markdown(["row", "what it is"], [[name, MEANINGS[name]] for name in MEANINGS]),
        "",
        "## What to use",
        "",
        *what_to_use(subjects),
        "",
        "## What helps where",
        "",
        f"Mean average precision less that of {PLAIN}.",
        "",
        *overview(subjects),
        "",
        "## What the corrections believed",
        "",
        "tau', the share of hidden positives among the unlabelled, in the last step, mean over the seeds. The truth is "
        "what deb was given.",
        "",
        *shares(subjects),
        "",
        *why_auto_loses(subjects),
    ]
    for name, subject in subjects.items():
        lines += ["", f"## {name}", "", f"{subject['about'][0].upper()}{subject['about'][1:]}."]
        for searched, part in subject["parts"].items():
            lines += ["", f"By {searched} samples:", "", *part_table(rows_of(part), subject["temperatures"])]
        lines += ["", *choice_lines(subject)]
    lines += ["", "Every trial is a line of `records/pairs/trials.jsonl`, with what corrections reported at its end."]
    return "\n".join(lines) + "\n"


def parts_of(subjects: Mapping[str, Any]) -> Iterator[tuple[str, list[TableRow]]]:
    """Each part that was searched, by a name, with its rows."""
    for name, subject in subjects.items():
        for searched, part in subject["parts"].items():
            yield (name if searched == "test" else f"{name}, {searched}"), rows_of(part)


def what_to_use(subjects: Mapping[str, Any]) -> list[str]:
    """A line for each row: where it is above plain, and where below."""
    signs: dict[str, dict[int, list[str]]] = {}
    for part, rows in parts_of(subjects):
        for row in rows:
            if row.name in (PLAIN, "untrained", ORACLE, "supcon"):
                continue
            signs.setdefault(row.name, {}).setdefault(row.differences[YARDSTICK].sign, []).append(part)
    count = sum(1 for _ in parts_of(subjects))
    lines = []
    for name, found in signs.items():
        above, below, level = found.get(1, []), found.get(-1, []), found.get(0, [])
        measured = len(above) + len(below) + len(level)
        words = [f"above {PLAIN} by more than chance in {len(above)} of {measured} parts{_listed(above)}"]
        words.append(f"below it in {len(below)}{_listed(below)}" if below else "below it nowhere")
        some = "" if measured == count else " It was not measured in all parts."
        lines.append(f"- **{name}**, {MEANINGS[name]}: {', '.join(words)}.{some}")
    return lines + held_out_lines(subjects)


def held_out_lines(subjects: Mapping[str, Any]) -> list[str]:
    """Whether training helps on held-out classes at all."""
    lines = []
    for part, rows in parts_of(subjects):
        untrained = next(row for row in rows if row.name == "untrained").differences[YARDSTICK]
        if untrained.sign > 0:
            lines.append(
                f"- On {part} the untrained model retrieves more than {PLAIN} does ({interval(untrained)}): what is "
                f"learnt of some classes does not carry over to others."
            )
    return lines


def shares(subjects: Mapping[str, Any]) -> list[str]:
    """The true share of hidden positives of each subject, and those that corrections estimated."""
    rows = [[name, *(f"{subject['shares'][row]:.3f}" for row in ESTIMATED)] for name, subject in subjects.items()]
    return markdown(["part", "truth", *ESTIMATED[1:]], rows)


def why_auto_loses(subjects: Mapping[str, Any]) -> list[str]:
    """Where auto is below plain: whether its communities hold more than the hidden positives."""
    coarse = []
    for name, subject in subjects.items():
        auto = next(row for row in rows_of(subject["parts"]["test"]) if row.name == AUTO)
        if auto.differences[YARDSTICK].sign < 0 and subject["shares"][AUTO] > subject["shares"][ESTIMATED[0]]:
            coarse.append(name)
    if not coarse:
        return []
    return [
        f"Where {AUTO} is below {PLAIN} ({', '.join(coarse)}), it takes more pairs for hidden positives than there "
        "are: its communities hold several intents, or items that a user does not like. They repeat from half to half "
        "of the samples, so its guard does not see that they are too coarse."
    ]


def _listed(names: Sequence[str]) -> str:
    return f" ({'; '.join(names)})" if names else ""


def overview(subjects: Mapping[str, Any]) -> list[str]:
    """Rows by parts: the difference of the yardstick to plain."""
    parts = dict(parts_of(subjects))
    by_part = {part: {row.name: row for row in rows} for part, rows in parts.items()}
    table = []
    for name in MEANINGS:
        if name == PLAIN or not any(name in rows for rows in by_part.values()):
            continue
        cells = [interval(rows[name].differences[YARDSTICK]) if name in rows else "" for rows in by_part.values()]
        table.append([name, *cells])
    return markdown(["row", *parts], table)


def part_table(rows: Sequence[TableRow], temperatures: Mapping[str, float]) -> list[str]:
    """One row for each method: the yardstick with its difference, and the other numbers."""
    known = known_numbers()
    header = ["row", "t", f"{known[YARDSTICK].short}, %", f"to {PLAIN}", "closed"]
    header += [f"{known[number].short}, %" for number in OTHERS]
    table = []
    for row in rows:
        share = share_of_lead(row, rows, YARDSTICK)
        at = temperatures.get(row.name)
        cells = [row.name, "" if at is None else f"{at:g}", str(row.scores[YARDSTICK])]
        cells += [interval(row.differences.get(YARDSTICK)), "" if share is None else f"{share:.0%}"]
        table.append([*cells, *(str(row.scores[number]) for number in OTHERS)])
    return markdown(header, table)


def choice_lines(subject: Mapping[str, Any]) -> list[str]:
    """Rows by temperatures on validation samples; the chosen one is bold."""
    choice: dict[str, dict[str, float]] = subject["choice"]
    temperatures = list(next(iter(choice.values())))
    table = []
    for row, scores in choice.items():
        chosen = f"{subject['temperatures'][row]:g}"
        cells = [f"**{scores[at]:.2f}**" if at == chosen else f"{scores[at]:.2f}" for at in temperatures]
        table.append([row, *cells])
    if subject.get("temperatures_of"):
        return [f"The temperatures are those of {subject['temperatures_of']}."]
    head = ["By validation samples, mAP in %:", ""]
    return [*head, *markdown(["row", *(f"t {at}" for at in temperatures)], table)]
