"""Which packages there are."""

import platform
import re
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pucl
from pucl.doctor.finding import Finding
from pucl.texts import install


def find_versions() -> list[Finding]:
    """Python, pucl, and what pucl cannot do without."""
    return [
        Finding(name="Python", value=f"{platform.python_version()} ({sys.executable})"),
        Finding(name="pucl", value=f"{pucl.__version__} ({Path(pucl.__file__).parent})"),
        *(_find_package(requirement) for requirement in _requirements() if not requirement.extra),
    ]


def find_extras() -> list[Finding]:
    """Which optional parts are installed, and how to have the others."""
    requirements = _requirements()
    extras = dict.fromkeys(requirement.extra for requirement in requirements if requirement.extra)
    return [_find_extra(extra, [one for one in requirements if one.extra == extra]) for extra in extras]


@dataclass(frozen=True)
class _Requirement:
    package: str
    least: str
    extra: str

    @property
    def installed(self) -> str | None:
        """The version that is installed."""
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return None

    @property
    def fits(self) -> bool:
        """Whether it is installed, and new enough."""
        return self.installed is not None and _numbers(self.installed) >= _numbers(self.least)


def _requirements() -> list[_Requirement]:
    """What pucl asks for, as its package says; torch and numpy where it was not installed as a package."""
    try:
        lines = metadata.requires("pucl") or []
    except metadata.PackageNotFoundError:
        lines = ["torch", "numpy"]
    found = [re.match(r"([\w.-]+)(?:>=([\d.]+))?.*?(?:extra == ['\"](\w+)['\"])?$", line.strip()) for line in lines]
    parts = [match.groups(default="") for match in found if match]
    # "all" holds nothing that is not in another extra too.
    return [_Requirement(*part) for part in parts if part[0] != "pucl" and part[2] != "all"]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0])[:3])


def _find_package(requirement: _Requirement) -> Finding:
    advice = f"pip install --upgrade '{requirement.package}>={requirement.least}'"
    if requirement.fits:
        return Finding(name=requirement.package, value=str(requirement.installed))
    value = f"{requirement.installed or 'not installed'}; pucl needs {requirement.least} or later"
    return Finding(name=requirement.package, value=value, verdict="FAILED", advice=advice)


def _find_extra(extra: str, requirements: list[_Requirement]) -> Finding:
    there = ", ".join(f"{one.package} {one.installed}" for one in requirements if one.fits)
    missing = [one.package for one in requirements if not one.fits]
    if not missing:
        return Finding(name=f"extra {extra}", value=there)
    without = f"{there}; without {', '.join(missing)}" if there else "not installed"
    return Finding(name=f"extra {extra}", value=f"{without}: {install(extra)}", verdict="no")
