"""How many negatives are false: the method of the diagnosis, its limits, and how right it was on data with labels."""

from collections.abc import Sequence
from typing import Any

from results.words import OTHER_DIGITS, markdown, percent

METHOD = """\
# Diagnosis: how many of your negatives are false?

    pucl diagnose embeddings.npz                  # how many, and what do they cost
    pucl suspects RUN -o pairs.csv                # which, of an encoder that pucl trained or of a file
    pucl train simclr DATA --exclude pairs.csv    # leave these pairs out of the comparison

You have a model already, and its embeddings. Nothing is trained. `pip install` of torch and numpy is enough for
`.npz` and `.npy` files; the extra `diagnose` adds `.parquet` and faiss. In Python:

```python
import numpy as np
import pucl

labels = np.arange(800) % 10
embeddings = np.random.default_rng(0).standard_normal((10, 32))[labels]
embeddings += 0.5 * np.random.default_rng(1).standard_normal((800, 32))
result = pucl.diagnose(embeddings, labels=labels, temperature=0.2)  # views= and labels= are optional
assert result.truth.inside  # The share by the labels is in the interval.
pairs = result.suspects(100)  # pairs.write("pairs.csv")
```

`print(result)` shows the answer in words, `result.as_json()` is a record, and each number is a field.

## What it says, and what that rests on

- **The share of false negatives, with an interval.** The samples are divided into communities of near neighbours,
  at ten resolutions, from two groups to groups of about ten samples. At each resolution two halves of the samples
  are divided separately, three times. Levels on which both halves agree are kept: an adjusted Rand index of at
  least 0.5, and of at least 0.8 of the best one. The share of pairs in one group, over all levels that are kept, is
  the interval, widened by two standard errors of drawing the samples. The estimate inside of it is the mean of r.
- **r of a pair**: the share of the kept partitions that have both samples together, squared. Labels, if you have
  them, show whether r is calibrated (expected calibration error up to 0.1). Without labels nobody knows, and r is a
  rank.
- **What it costs.** The gradient of InfoNCE on an unlabelled sample is proportional to $e^{s/t}$. The cost is the
  share of that push which lands on false negatives, mean over the anchors. It grows as the temperature falls:
  similar samples get most of the push, and are false negatives most often.
- **Anchors at the floor**, with views: how many anchors DEB and PUCL could not correct, with the estimate as their
  tau'.
- **Advice** in one sentence. Plain, where less than a twentieth of the push is false, also at the upper end of
  the interval. To leave the costliest pairs out, where the share of false negatives is below a twentieth: groups are
  then small, and `auto` finds coarser ones. Otherwise
  [`auto`](corrections.md#which-one-to-use), with the setting of a fixed prior for comparison.

It refuses to estimate where all embeddings are the same, where no groups repeat (noise reaches an agreement of
0.25; 0.55 is needed), and where groups repeat at one resolution alone: a cut through a cloud without groups does
that too. Fewer than 60 samples are an error.

## Suspects

`pucl suspects` lists the pairs that cost most: r times the share of all push that the pair takes, in both
directions. Each has the indices and, if known, the names of both samples, their similarity, cost, r and kind:
*duplicate* (equal features), *near-duplicate* (ten times closer than usual neighbours), *likely mislabelled*
(different labels, and one of them is that of hardly any neighbour, or the two are copies), or *same group*. Where
groups cannot be told, copies alone are listed.

`--exclude FILE` of `pucl train` and `pucl compare` reads the list: these pairs are then never each other's
negatives, and N stays as it is. Samples are found by name if the list and the data both have names. Otherwise row i
of the list is training sample i of the run: pucl cannot notice another order, so make the list from a run on these
data. A list of all pairs of one class would be the oracle. The list is part of the run's
data: a run is not resumed with another one. The oracles know all pairs, and do not use it. For a loss of your own,
`pucl.pairs.read_groups(FILE, samples)` makes `groups=`. Groups are transitive, pairs are not: a long list joins
many samples.

## What it cannot know

**The share has a granularity.** Ten domains and 150 intents are both classes of CLINC150, with shares of about a
10th and a 150th. No similarity says which is meant. The interval is over the granularities that repeat from half to
half. Classes may be meant coarser or finer than all of them: then the truth is outside, and only you can know. This
is what happened with the domains below. It is so wherever fine groups hardly touch: what joins them is not in a
graph of near neighbours.

**Groups need not be classes.** What repeats may be a colour, a background or a writer.

**A wide interval is an answer**: the embeddings have groups at many granularities. The cost is then as uncertain.

**Samples.** Of more than 5,000 samples, 5,000 random ones are divided, so that groups with a share below about a
thousandth are not seen. Of more than 10,000, suspects are searched among the neighbours of 10,000 random ones; the
neighbours are exact.
"""


def diagnosis_page(record: dict[str, Any], bench: dict[str, Any] | None) -> str:
    """docs/diagnosis.md from records/diagnosis/cases.json and records/bench/diagnose.json."""
    cases = record["cases"]
    new = [case for case in cases if not case["tuned"]]
    lines = [
        METHOD,
        "## How right it is",
        "",
        f"Encoders on data with labels, which the diagnosis did not see, made by `{record['command']}`. "
        f"{_summary(cases)} The constants were chosen while looking at the cases with a star. Of the {len(new)} "
        f"others: {_summary(new)[0].lower()}{_summary(new)[1:]}",
        "",
        *_table(cases),
        "",
        *_reasons(cases),
        "",
        f"Of the first {cases[0]['listed']} suspects of the trained encoders on digits, at least "
        f"{percent(_least_of_digits(cases))} are of one class. {OTHER_DIGITS}",
    ]
    if bench is not None:
        lines += ["", *_time(bench)]
    return "\n".join(lines) + "\n"


def _summary(cases: Sequence[dict[str, Any]]) -> str:
    answered = [case for case in cases if case["inside"] is not None]
    inside = sum(case["inside"] for case in answered)
    refused = len(cases) - len(answered)
    return (
        f"The truth is in {inside} of {len(answered)} intervals; in {refused} of {len(cases)} cases it refused to tell."
    )


def _table(cases: Sequence[dict[str, Any]]) -> list[str]:
    header = ["data", "encoder", "t", "truth", "estimate", "interval", "verdict", "ECE of r", "push: estimate"]
    header += ["push: truth", "suspects of one class"]
    rows = []
    for case in cases:
        seed = f", seed {case['name'].rpartition('s')[2]}" if case["framework"] != "MiniLM" else ""
        rows.append(
            [
                f"{case['data']}{', ' + case['classes'] if case['classes'] else ''}",
                f"{case['framework']}{'' if case['framework'] == 'MiniLM' else ' ' + case['row']}{seed}"
                f"{' *' if case['tuned'] else ''}",
                f"{case['temperature']:g}",
                percent(case["truth"], 1),
                percent(case["share"], 1),
                "" if case["low"] is None else f"{percent(case['low'], 1)} to {percent(case['high'], 1)}",
                {None: "cannot tell", True: "inside", False: "**outside**"}[case["inside"]],
                "" if case["calibration_error"] is None else f"{case['calibration_error']:.2f}",
                percent(case["cost"]),
                percent(case["true_cost"]) if case["cost"] is not None else "",
                percent(case["of_one_class"]) if case["share"] is not None else "",
            ]
        )
    return markdown(header, rows)


def _reasons(cases: Sequence[dict[str, Any]]) -> list[str]:
    """Why it could not be told, each case on a line."""
    return [f"- {case['name']}: {case['refused']}." for case in cases if case["refused"] is not None]


def _least_of_digits(cases: Sequence[dict[str, Any]]) -> float | None:
    shares = [
        case["of_one_class"]
        for case in cases
        if case["data"] == "digits" and case["row"] != "untrained" and case["share"] is not None
    ]
    return min(shares, default=None)


def _time(record: dict[str, Any]) -> list[str]:
    """Time and memory of many embeddings."""
    machine, settings, peak = record["machine"], record["settings"], record["peak"]["bytes"]
    searches = " and ".join(f"{_seconds(each)} with {name}" for name, each in record["suspects"].items())
    memory = "not measured" if peak is None else f"{peak / 2**30:.1f} GiB, embeddings included"
    same = record["same"]
    load = machine["load_average_before"]
    busy = load is not None and load > machine["cores"] / 2
    return [
        "## Time and memory",
        "",
        f"{settings['samples']:,} embeddings of {settings['dim']} dimensions with {settings['threads']} threads on "
        f"{machine['cores']} cores ({machine['cpu']}): {_seconds(record['diagnosis'])} for the diagnosis, then "
        f"{searches} for {settings['pairs']:,} suspects; peak memory {memory}."
        + ("" if same is None else f" Both searches list the same pairs ({percent(same, 1)}).")
        + (f" The machine was busy with other work (load {load:.0f})." if busy else "")
        + f" Made by `{record['command']}`.",
    ]


def _seconds(time: dict[str, float]) -> str:
    return f"{time['seconds']:,.0f} s ({time['processor_seconds']:,.0f} s of processor time)"
