"""What happens when processes die, disks fill and bytes are wrong: promises, and the campaign that attacks them."""

from collections import Counter
from typing import Any

from results.words import markdown

VERDICTS = {
    "recovered": "the same command went on to the result of an undisturbed run, bit for bit; nothing was left behind",
    "same": "the damage changed nothing that anybody gets to see",
    "accepted": "the file is still valid and was read",
    "refused": "a sentence named the file and said what is wrong",
    "undetectable": "still a valid record of JSON with another value or name in it; such records carry no digest",
    "failed": "a fault of pucl's: work lost, another result, a traceback, a crash, a hang, memory without bound",
}
SHOWN = 200  # Characters of a failure.

PROMISES = """\
# What pucl promises when things go wrong

- **A kill loses little, and changes nothing.** A training, a grid, a process under `torchrun` or a Ray worker may be
  killed at any moment. The same command goes on from the last checkpoint, and weights, embeddings and numbers are those
  of a run that nobody disturbed, bit for bit. No lock, process or half-written file stays behind.
- **A full disk is an error that says so.** What was written before stays whole, and the same command goes on once there
  is room.
- **Damage is told.** Flipped bits in a file that pucl reads back are refused with a sentence that names the file, or
  change nothing. Records in JSON are the exception: a changed digit in a valid record cannot be seen.
- **Data with wrong bytes are read or refused.** A refusal is a sentence that names the file. There is no traceback, no
  crash, no hang, and memory stays within bounds.
- **Files from strangers run nothing.** [SECURITY.md](../SECURITY.md) has what is promised of them, and what is not.

## The campaign

    make faults                                        # a quarter of an hour on two cores
    python -m faults --minutes 90 --seed 7             # longer, with other random numbers
    python -m faults --only KIND --seed S --number N   # one attack again, with all that came of it

The campaign attacks these promises at random and counts what happens. Each campaign has a seed, and its own entry in
`records/faults/campaign.json`; a seed that is there goes on where it stopped. The exit code is 1 if anything failed. A
short form is one of the tests.
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
