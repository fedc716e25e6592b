"""Attack pucl, and see that it loses nothing and says what is wrong.

  python -m faults                              a quarter of an hour, all kinds; adds to records/faults/campaign.json
  python -m faults --minutes 90 --seed 7        longer, with other random numbers; its own entry in the record
  python -m faults --only flip-checkpoint,mutate-npz
  python -m faults --only mutate-npz --seed 0 --number 12    one attack again, with its full result

The exit code is 1 if an attack failed.
"""

import argparse
import gc
import os
import shlex
import sys
import tempfile
from pathlib import Path

# Before numpy and torch: a process with threads of its own cannot be forked safely, and small runs need none.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import torch

# All that commands import, so that a forked process need not.
import pucl.commands.compare
import pucl.commands.embed
import pucl.commands.eval
import pucl.commands.prior
import pucl.commands.report
import pucl.commands.runs
import pucl.commands.train  # noqa: F401
from faults.campaign import KINDS, attack, run_campaign, save
from faults.trial import VERDICTS, Workspace
from pucl.progress import StatusArea
from pucl.texts import did_you_mean, table

RECORD = Path("records/faults/campaign.json")


def main() -> int:
    """Run a campaign, or one attack."""
    parser = argparse.ArgumentParser(
        "faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=15.0, help="for how long (default: %(default)g)")
    parser.add_argument("--seed", type=int, default=0, help="of everything random (default: 0)")
    parser.add_argument("--only", default="", metavar="KIND,...", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--number", type=int, help="do only this one again; needs --only with one kind")
    parser.add_argument("--workers", type=int, default=2, help="attacks at a time (default: 2)")
    parser.add_argument("--record", type=Path, default=RECORD, metavar="FILE", help="where to (default: %(default)s)")
    arguments = parser.parse_args()
    names = [name for name in arguments.only.split(",") if name]
    for name in names:
        if name not in KINDS:
            parser.error(f"no kind of attack {name!r}.{did_you_mean(name, KINDS)} Known are {', '.join(KINDS)}")
    torch.set_num_threads(1)
    gc.freeze()  # What is imported stays shared with forked processes, whose collector would touch and so copy it.
    if arguments.number is not None:
        if len(names) != 1:
            parser.error("--number is one attack of a kind: say which kind with --only")
        return again(names[0], arguments.seed, arguments.number)
    chosen = [KINDS[name] for name in names or KINDS]
    with StatusArea() as area:
        entry = run_campaign(
            chosen, seed=arguments.seed, minutes=arguments.minutes, workers=arguments.workers, area=area
        )
    save(arguments.record, entry | {"command": shlex.join(["python", "-m", "faults", *sys.argv[1:]])})
    rows = [["kind", "attacks", "kills", *VERDICTS]]
    for name, tally in entry["kinds"].items():
        counts = [str(tally["verdicts"].get(verdict, "")) for verdict in VERDICTS]
        rows.append([name, str(tally["tried"]), str(tally["kills"]), *counts])
    print(table(rows))
    return 1 if any(tally["failures"] for tally in entry["kinds"].values()) else 0


def again(kind: str, seed: int, number: int) -> int:
    """Repeat one attack, and print its full result."""
    with tempfile.TemporaryDirectory(prefix="pucl-faults-") as top:
        outcome = attack(KINDS[kind], seed, number, Workspace(Path(top)))
    print(f"{kind}, seed {seed}, number {number}: {outcome.verdict}, which means: {VERDICTS[outcome.verdict]}")
    print(f"\n{outcome.words}")
    return 1 if outcome.verdict == "failed" else 0


if __name__ == "__main__":
    sys.exit(main())
