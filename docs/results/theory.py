"""Lemma and theorem, checked by numbers."""

from typing import Any

from results.words import markdown


def theory_page(record: dict[str, Any]) -> str:
    """docs/theory.md from records/theory/theory.json."""
    settings = record["settings"]
    lines = [
        "# The theory, checked numerically",
        "",
        f"Made by `{record['command']}` with torch {record['torch']}. The world: {settings['classes']} classes on the "
        f"sphere (von Mises-Fisher, concentration {settings['concentration']:g}), temperature "
        f"{settings['temperature']:g}, {settings['trials']:,} anchors, seed {settings['seed']}. The distributions of "
        "positives, negatives and unlabelled samples are known in closed form. Labels are selected completely at "
        "random (SCAR) by construction; for augmented images they are not.",
        "",
        "![How far each loss is from the ideal loss](../records/theory/theory.png)",
        "",
        "## Lemma 1",
        "",
        f"As an equation between densities, at {record['lemma_densities']['points']:,} points: largest relative error "
        f"{record['lemma_densities']['largest_error']:.1e}. On {settings['draws']:,} samples that were drawn, labelled "
        "with probability c and thinned out:",
        "",
        *markdown(
            ("quantity", "by the lemma", "measured"),
            [
                (check["quantity"], f"{check['expected']:.5f}", with_error(check["measured"]))
                for check in record["lemma_samples"]
            ],
        ),
        "",
        "## Theorem 1",
        "",
        "Each loss minus the ideal loss, with its standard error. *Exact* is the paper's loss with the true mean over "
        "negatives, which is what the theorem bounds, by (e^(2/t) - 1) / (2 sqrt N). *Corrected* is what training "
        f"uses: an estimate from N unlabelled samples and 1 or {settings['positives']} positives.",
    ]
    for title, name in (("N varies", "over_unlabelled"), ("alpha varies", "over_alpha"), ("c varies", "over_c")):
        lines += ["", f"### {title}", "", *theory_table(record[name], settings["positives"])]
    return "\n".join(lines) + "\n"


def theory_table(rows: list[dict[str, Any]], positives: int) -> list[str]:
    """One row per choice of N, alpha and c."""
    header = (
        "N",
        "alpha",
        "c",
        "tau'",
        "standard",
        "corrected, M+ = 1",
        f"corrected, M+ = {positives}",
        "exact",
        "bound",
        "floored, M+ = 1",
    )
    table = []
    for row in rows:
        biases = [row[name]["bias"] for name in ("standard", "corrected_one", "corrected_several", "exact")]
        cells = [f"{row['unlabelled']}", f"{row['alpha']:g}", f"{row['c']:g}", f"{row['tau_plus']:.3f}"]
        cells += [with_error(bias) for bias in biases]
        cells += [f"{row['bound']:.3g}", f"{row['corrected_one']['floored']:.1%}"]
        table.append(cells)
    return markdown(header, table)


def with_error(estimate: dict[str, float]) -> str:
    """A value and its standard error."""
    return f"{estimate['value']:+.5f} ± {estimate['error']:.5f}"
