"""Frameworks: where positives and unlabelled samples come from. One file each, and one line in the table."""

from pucl.frameworks.cmc import CMC_KIND
from pucl.frameworks.infograph import INFOGRAPH
from pucl.frameworks.kind import FrameworkKind
from pucl.frameworks.moco import MOCO
from pucl.frameworks.simclr import SIMCLR

FRAMEWORKS: dict[str, FrameworkKind] = {kind.name: kind for kind in (SIMCLR, MOCO, CMC_KIND, INFOGRAPH)}
"""By name. A new framework is a file and a word here."""
