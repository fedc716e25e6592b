"""Default names of directories: they tell runs with different settings apart, and the same command finds its own."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

LONGEST = 80  # Letters of a suffix; a file name may have 255.


def suffix_of(given: Mapping[str, Any]) -> str:
    """The end of a directory's name: each setting that was given with its value, or nothing where none was.

    It has letters, digits, dots and hyphens alone. Where that or its length costs information, a digest follows.

    Example:
        >>> suffix_of({"batch_size": 64, "temperature": 0.2}), suffix_of({})
        ('-batch-size-64-temperature-0.2', '')
    """
    text = "".join(f"-{name.replace('_', '-')}-{'none' if value is None else value}" for name, value in given.items())
    suffix = re.sub(r"[^A-Za-z0-9.-]+", "-", text)
    if suffix == text and len(suffix) <= LONGEST:
        return suffix
    digest = hashlib.sha256(json.dumps(dict(given)).encode()).hexdigest()[:8]
    return f"{suffix[:LONGEST].rstrip('-.')}-{digest}"
