"""What a check came to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "no", "FAILED"]
"""``no`` is something that this machine or installation does without; only ``FAILED`` is a fault."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one check came to.

    Args:
        name: What was looked at.
        value: What was found.
        verdict: Whether that is well, absent, or a fault.
        advice: What to do about it.
    """

    name: str
    value: str
    verdict: Verdict = "ok"
    advice: str = ""


def fault(name: str, value: str) -> Finding:
    """Something that must not be."""
    advice = "do not trust results of this installation: reinstall torch and pucl, and report it if that does not help"
    return Finding(name=name, value=value, verdict="FAILED", advice=advice)


def guarded(name: str, check: Callable[[], Finding]) -> Finding:
    """The check, or what kept it from coming to an end: a doctor goes on to the next complaint."""
    try:
        return check()
    except Exception as error:
        return fault(name, f"{type(error).__name__}: {error}")
