"""``python -m pucl`` is ``pucl``."""

import sys

from pucl.cli import main

sys.exit(main())
