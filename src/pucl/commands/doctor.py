"""Check this installation, what this machine can do, and that the losses are right on it.

--world-size N also starts N processes on this machine that compute every loss that learns nothing together, as in a
training on several devices. Their losses and gradients are compared with those of one process that has the whole batch.

Every line has a verdict: "ok", "no" (this machine or installation does not have it), or "FAILED". The exit code is 0 if
nothing failed and 1 otherwise.
"""

import argparse

from pucl import doctor
from pucl.texts import say

EXAMPLES = (
    "pucl doctor",
    "pucl doctor --world-size 2",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl doctor``."""
    parser.add_argument("--world-size", type=int, metavar="N", help="also compare N processes with one")
    parser.add_argument(
        "--timeout",
        type=float,
        default=doctor.PATIENCE,
        metavar="S",
        help="seconds to wait for those processes (default: %(default)g)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the checks, print the findings, and return 1 if a check failed."""
    count = arguments.world_size
    if count is not None:
        doctor.check_world_size(count)
    if not arguments.timeout > 0:
        raise ValueError(f"timeout is the time to wait for processes: expected seconds > 0, got {arguments.timeout:g}")
    topics = doctor.examine()
    if count is not None:
        topics[f"{count} processes against one"] = doctor.certify(count, timeout=arguments.timeout)
    width = max(len(finding.name) for findings in topics.values() for finding in findings)
    for topic, findings in topics.items():
        say(topic)
        for finding in findings:
            say(f"  {finding.verdict:<6}  {finding.name:<{width}}  {finding.value}")
        say()
    failed = [finding for findings in topics.values() for finding in findings if finding.verdict == "FAILED"]
    if not failed:
        say("All checks passed.")
        return 0
    say(f"{len(failed)} of the checks failed:")
    for finding in failed:
        say(f"- {finding.name}: {finding.value}" + (f". {finding.advice}" if finding.advice else ""))
    return 1
