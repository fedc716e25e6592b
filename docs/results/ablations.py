"""The paper's ablations: the prior and the label frequency, and how many unlabelled samples there are."""

import math
from statistics import mean, variance
from typing import Any

from scipy.stats import f as fisher  # type: ignore[import-untyped]

from pucl.evaluation import known_numbers
from pucl.runs.rows import TableRow
from pucl.runs.statistics import Difference, student_quantile
from pucl.texts import counted
from results.words import OTHER_DIGITS, interval, markdown, percent, rows_of, tau

LEADING, SHOWN = "retrieval", ("retrieval", "knn", "linear")
PLAIN, ORACLE = "plain", "oracle"

TITLES = {"alpha-c": "alpha and c", "unlabelled": "the number of unlabelled samples"}


def ablations_page(*records: dict[str, Any] | None) -> str:
    """docs/ablations.md from records/images."""
    lines = ["# Ablations: the prior, the label frequency, and how many unlabelled samples"]
    for (name, title), record in zip(TITLES.items(), records, strict=True):
        if record is None:
            continue
        for part_name, part in record["data"].items():
            config = part["config"]
            lines += [
                "",
                f"## {title[0].upper()}{title[1:]}",
                "",
                f"Made by `{record['command']}` with torch {record['torch']}: {part_name}, {config['limit']:,} images "
                f"of {config['image_size']} pixels, {counted(config['epochs'], 'epoch')}. Differences are those of the "
                f"mean average precision to `{part['base']}`, seed by seed, with 95 % intervals (bold: more than "
                f"chance). {OTHER_DIGITS}",
                "",
                *(f"- {sentence}" for sentence in FINDINGS[name](rows_of(part), config)),
                "",
                f"![Retrieval over {title}](../records/images/ablate-{name}/{name}.png)",
                "",
                *ablation_table(rows_of(part)),
            ]
    return "\n".join(lines) + "\n"


def ablation_table(rows: list[TableRow]) -> list[str]:
    """One row for each setting."""
    return markdown(
        ["row", "tau'", *(f"{known_numbers()[number].short}, %" for number in SHOWN), "difference", "floored", "n"],
        [
            [
                row.name,
                tau(row),
                *(str(row.scores[number]) for number in SHOWN),
                interval(row.differences.get(LEADING)),
                percent(row.floored, 1),
                str(row.count),
            ]
            for row in rows
        ],
    )


def retrieval(row: TableRow) -> float:
    """Its mean average precision."""
    return row.scores[LEADING].mean


def lead_of(oracle: TableRow, plain: TableRow) -> str:
    """What false negatives cost: the oracle less plain."""
    return interval(Difference.between(list(oracle.by_seed[LEADING]), list(plain.by_seed[LEADING])))


def of_alpha_and_c(rows: list[TableRow], _config: dict[str, Any]) -> list[str]:
    """Whether settings differ by more than seeds do, and which way tau' goes."""
    by_name = {row.name: row for row in rows}
    cells, plain = [row for row in rows if row.tau_plus], by_name[PLAIN]
    gains = [retrieval(row) - retrieval(plain) for row in cells]
    shares = [row.tau_plus or 0.0 for row in cells]
    low, high = min(shares), max(shares)
    worst = max(cells, key=lambda row: row.floored or 0.0)
    slope, margin = line_over(shares, gains)
    return [
        f"False negatives cost {lead_of(by_name[ORACLE], plain)}: so much is the oracle above plain.",
        f"The {len(cells)} settings have tau' from {low:.3f} to {high:.3f}, and differ from plain by "
        f"{mean(gains):+.2f} on average ({min(gains):+.2f} to {max(gains):+.2f}).",
        *among(cells),
        f"Only tau' reaches the loss. A straight line fitted over tau' changes by {slope / 10:+.2f} ± "
        f"{margin / 10:.2f} points (95 %) for 0.1 of tau'.",
        f"In the last epoch the largest share of floored anchors is {percent(worst.floored, 1)}, at tau' "
        f"{worst.tau_plus:.3f}.",
    ]


def of_unlabelled(rows: list[TableRow], config: dict[str, Any]) -> list[str]:
    """What more unlabelled samples are worth, and what a correction is, at each number of them."""
    counts = list(dict.fromkeys(row.name.split(",")[0] for row in rows))
    by_name = {row.name: row for row in rows}
    sentences, by_seed = [], []
    for count in counts:
        plain, oracle = (by_name[f"{count}, {name}"] for name in (PLAIN, ORACLE))
        cells = [row for row in rows if row.name.startswith(f"{count}, alpha")]
        best = max(cells, key=retrieval)
        gains = [retrieval(row) - retrieval(plain) for row in cells]
        sentences.append(
            f"{count}: plain {plain.scores[LEADING]}, oracle {lead_of(oracle, plain)}; PUCL changes plain by "
            f"{mean(gains):+.2f} on average over alpha, and by {max(gains):+.2f} at best "
            f"({best.name.split(', ')[1]}). {' '.join(among(cells))}".rstrip()
        )
        paired = zip(*(row.by_seed[LEADING] for row in cells), strict=True)
        by_seed.append([mean(scores) - own for scores, own in zip(paired, plain.by_seed[LEADING], strict=True)])
    gains = [mean(of_seed) for of_seed in zip(*by_seed, strict=True)]
    if len(gains) > 1:
        margin = student_quantile(len(gains) - 1) * math.sqrt(variance(gains) / len(gains))
        sentences.append(
            f"Over all N and alpha PUCL differs from plain with the same N by {mean(gains):+.2f} ± {margin:.2f} "
            f"(95 %, {len(gains)} seeds)."
        )
    steps = [f"{count} {config['limit'] // (int(count.split()[1]) // 2 + 1)}" for count in counts]
    sentences.append(
        f"N is 2 (B - 1) for a batch of B. All rows have the same number of epochs, so more unlabelled samples mean "
        f"fewer steps (in an epoch: {', '.join(steps)}). The table cannot separate the two effects. It shows what a "
        f"correction changes at each N."
    )
    return sentences


def among(cells: list[TableRow]) -> list[str]:
    """Whether settings differ among themselves by more than the seeds of one do (95 %); nothing without several."""
    seeds = min(len(row.by_seed[LEADING]) for row in cells)
    if seeds < 2 or len(cells) < 2:
        return []
    by_chance = math.sqrt(mean(variance(row.by_seed[LEADING]) for row in cells) / seeds)
    between = math.sqrt(variance([retrieval(row) for row in cells]))
    limit = by_chance * math.sqrt(fisher.ppf(0.95, len(cells) - 1, len(cells) * (seeds - 1)))
    verdict = "more than" if between > limit else "no more than"
    return [
        f"The means of the settings have a standard deviation of {between:.2f}; seeds alone would give "
        f"{by_chance:.2f}. This is {verdict} chance."
    ]


def line_over(x: list[float], y: list[float]) -> tuple[float, float]:
    """The slope of the straight line that fits best, and how far from it the true one may be, 95 times in 100."""
    centre, height = mean(x), mean(y)
    spread_of_x = sum((each - centre) ** 2 for each in x)
    slope = sum((a - centre) * (b - height) for a, b in zip(x, y, strict=True)) / spread_of_x
    rest = sum((b - height - slope * (a - centre)) ** 2 for a, b in zip(x, y, strict=True))
    return slope, student_quantile(len(x) - 2) * math.sqrt(rest / (len(x) - 2) / spread_of_x)


FINDINGS = {"alpha-c": of_alpha_and_c, "unlabelled": of_unlabelled}
"""By ablation: what its rows say, in sentences."""
