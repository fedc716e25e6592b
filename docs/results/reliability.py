"""What happens when processes die, disks fill and bytes are wrong: promises, and the campaign that attacks them."""

from collections import Counter
from typing import Any

from results.words import markdown

VERDICTS = {
    "recovered": "the same command continued to the result of an undisturbed run, bit for bit, and left no stray files",
    "same": "the damage changed no result",
    "accepted": "the file is still valid and was read",
    "refused": "an error message named the file and the problem",
    "undetectable": "the file is still valid JSON with another value or name; such records have no digest",
    "failed": "a bug in pucl: lost work, another result, a traceback, a crash, a hang, or unbounded memory",
}
SHOWN = 200  # Characters of a failure.

PROMISES = """\
# Reliability: what pucl promises when things go wrong

- **A kill loses little work and changes no result.** You may kill a training, a grid, a process under `torchrun` or a
  Ray worker at any moment. The same command continues from the last checkpoint. Weights, embeddings and results equal
  those of an undisturbed run, bit for bit. No lock, process or partial file remains.
- **A full disk raises a clear error.** Files written before stay intact. The same command continues once there is
  space.
- **Damage is reported.** If bits of a file are flipped, pucl refuses the file with a message that names it, or the
  damage changes no result. Records in JSON are the exception: pucl cannot notice a changed digit in a valid record.
- **Malformed data are read or refused.** A refusal is a message that names the file. There is no traceback, no crash,
  no hang, and memory stays within bounds.
- **Files from strangers run no code.** [SECURITY.md](../SECURITY.md) lists what is promised, and what is not.

## The campaign

    make faults                                        # a quarter of an hour on two cores
    python -m faults --minutes 90 --seed 7             # longer, with other random numbers
    python -m faults --only KIND --seed S --number N   # repeat one attack and show its results

The campaign attacks these promises at random and counts the results. Each campaign has a seed and its own entry in
`records/faults/campaign.json`. The exit code is 1 if anything failed. The test suite runs a short campaign.
"""


def reliability_page(record: dict[str, Any]) -> str:
    """docs/reliability.md from records/faults/campaign.json."""
    campaigns = record["campaigns"]
    kinds = _summed(campaigns)
    verdicts: Counter[str] = sum((kind["verdicts"] for kind in kinds.values()), Counter())
    kills = sum(kind["kills"] for kind in kinds.values())
    groups = Counter[str]()
    for kind in kinds.values():
        groups[kind["group"]] += kind["tried"]
    lines = [
        PROMISES,
        f"So far: {_campaigns(campaigns)}, {sum(each['seconds'] for each in campaigns) / 3600:.1f} hours, "
        f"{sum(groups.values()):,} attacks, among them {kills:,} kills and {groups['mutated data']:,} mutations of "
        f"data; **{verdicts['failed']:,} failed**. With torch {_all(campaigns, 'torch')} and Python "
        f"{_all(campaigns, 'python')} on {_all(campaigns, 'system')}.",
        "",
        *(f"- *{name}*: {words}" for name, words in VERDICTS.items() if verdicts[name] or name == "failed"),
    ]
    for group in groups:
        lines += [
            "",
            f"### {group.capitalize()}",
            "",
            *_table([kind for kind in kinds.values() if kind["group"] == group]),
        ]
    if missing := sorted({f"`{name}` ({why})" for each in campaigns for name, why in each["missing"].items()}):
        lines += ["", f"Not tried in every campaign: {', '.join(missing)}."]
    lines += _failures(campaigns)
    lines += ["", "Made by:", "", *(f"- `{each['command']}` (pucl {each['pucl']})" for each in campaigns)]
    return "\n".join(lines) + "\n"


def _summed(campaigns: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    kinds: dict[str, dict[str, Any]] = {}
    for campaign in campaigns:
        for name, tally in campaign["kinds"].items():
            kind = kinds.setdefault(name, {"tried": 0, "kills": 0, "verdicts": Counter()})
            kind |= {"group": tally["group"], "about": tally["about"]}
            kind["tried"] += tally["tried"]
            kind["kills"] += tally["kills"]
            kind["verdicts"] += Counter(tally["verdicts"])
    return kinds


def _table(kinds: list[dict[str, Any]]) -> list[str]:
    shown = [name for name in VERDICTS if name == "failed" or any(kind["verdicts"][name] for kind in kinds)]
    killing = any(kind["kills"] for kind in kinds)
    rows = [
        [
            kind["about"],
            f"{kind['tried']:,}",
            *([f"{kind['kills']:,}"] if killing else []),
            *(f"{kind['verdicts'][name]:,}" for name in shown),
        ]
        for kind in kinds
    ]
    return markdown(["what", "attacks", *(["kills"] if killing else []), *shown], rows)


def _failures(campaigns: list[dict[str, Any]]) -> list[str]:
    found = [
        f"- `--only {name} --seed {campaign['seed']} --number {failure['number']}`: {_plain(failure['words'])}"
        for campaign in campaigns
        for name, tally in campaign["kinds"].items()
        for failure in tally["failures"]
    ]
    return ["", "### What failed", "", *found] if found else []


def _plain(words: str) -> str:
    """The beginning of a text on one line, as text."""
    text = " ".join(words.split())
    short = text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."
    return "".join(f"\\{character}" if character in r"\`*_[]<>|" else character for character in short)


def _campaigns(campaigns: list[dict[str, Any]]) -> str:
    seeds = ", ".join(str(each["seed"]) for each in campaigns)
    return f"one campaign (seed {seeds})" if len(campaigns) == 1 else f"{len(campaigns)} campaigns (seeds {seeds})"


def _all(campaigns: list[dict[str, Any]], name: str) -> str:
    return ", ".join(sorted({each[name] for each in campaigns}))
