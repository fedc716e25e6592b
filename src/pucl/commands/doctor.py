"""Check this installation, what this machine can do, and that the losses do here what they should.

With --world-size N it also starts N processes on this machine that compute every loss together, as a training on many
devices does, and compares loss and gradients with those of one process that has the whole batch.

Every line has a verdict: "ok", "no" for what this machine or installation does without, or "FAILED".
The exit code is 0 if nothing failed and 1 otherwise.
"""

import argparse
from collections.abc import Sequence

from pucl import doctor
from pucl.doctor import Certificate, Finding
from pucl.doctor.worker import TOLERANCE, Agreement
from pucl.texts import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``pucl doctor``."""
    parser.add_argument("--world-size", type=int, metavar="N", help="also compare N processes with a single one")
    parser.add_argument(
        "--timeout",
        type=float,
        default=doctor.PATIENCE,
        metavar="SECONDS",
        help="how long to wait for those processes (default: %(default)g)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Examine, print, and say whether all is well."""
    if arguments.world_size is not None:
        doctor.check_world_size(arguments.world_size)
    if not arguments.timeout > 0:
        raise ValueError(f"timeout is how long to wait for processes: expected seconds > 0, got {arguments.timeout:g}")
    topics = doctor.examine()
    width = max(len(finding.name) for findings in topics.values() for finding in findings)
    for topic, findings in topics.items():
        say(f"{topic}")
        for finding in findings:
            say(f"  {finding.verdict:<6}  {finding.name:<{width}}  {finding.value}")
        say()
    complaints = [_complaint(finding) for findings in topics.values() for finding in findings if _failed(finding)]
    if arguments.world_size is not None:
        certificate = doctor.certify(arguments.world_size, timeout=arguments.timeout)
        say(_table(certificate))
        say()
        complaints += _complaints(certificate)
    if complaints:
        say("\n".join([f"{len(complaints)} of the checks failed:", *(f"- {line}" for line in complaints)]))
        return 1
    say("All checks passed.")
    return 0


def _failed(finding: Finding) -> bool:
    return finding.verdict == "FAILED"


def _complaint(finding: Finding) -> str:
    return f"{finding.name}: {finding.value}" + (f". {finding.advice}" if finding.advice else "")


def _complaints(certificate: Certificate) -> list[str]:
    if certificate.trouble:
        return [f"{certificate.world_size} processes: {certificate.trouble}"]
    wrong = [agreement for agreement in certificate.agreements if not agreement.holds]
    if not wrong:
        return []
    names = "; ".join(f"{agreement.loss} ({agreement.form})" for agreement in wrong)
    return [
        f"{certificate.world_size} processes differ from one: {names}. Do not train on many devices with this "
        f"installation; reinstall torch and pucl, and report it if that does not help"
    ]


def _table(certificate: Certificate) -> str:
    title = f"{certificate.world_size} processes against one ({certificate.seconds:.0f} s)"
    if certificate.trouble:
        return f"{title}\n  FAILED  {certificate.trouble}"
    rows = [_row(agreement) for agreement in certificate.agreements]
    heads = ("", "loss", "form", "cases", "loss differs by", "gradients by", "memory by")
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [_aligned(row, widths) for row in (heads, *rows)]
    note = (
        f"  The largest relative differences over all cases and processes; up to {TOLERANCE:.0e} is rounding.\n"
        "  Cases: batches equal, unequal and with twins; mean, sum and none; gradients of embeddings, and of an\n"
        "  encoder under DistributedDataParallel."
    )
    return "\n".join([title, *lines, note])


def _row(agreement: Agreement) -> tuple[str, ...]:
    return (
        "ok" if agreement.holds else "FAILED",
        agreement.loss,
        agreement.form,
        str(agreement.cases),
        f"{agreement.loss_difference:.1e}",
        f"{agreement.gradient_difference:.1e}",
        f"{agreement.queue_difference:.1e}" if agreement.form.startswith("memory bank") else "",
    )


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """Words to the left, numbers to the right."""
    cells = [
        cell.ljust(max(width, 6 * (not column))) if column < 3 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return f"  {'  '.join(cells)}".rstrip()
