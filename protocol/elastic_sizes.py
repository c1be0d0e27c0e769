"""The numbers of GPUs that an elastic job can use (`tsbatch --elastic=MIN-MAX[:STEP]`).

The supervisor reports them (control.py); until then the controller has the note of the submission (submitted_scripts.py). Both are
statements of the job's owner, and count for that job only.
"""

from __future__ import annotations

import re
from typing import NamedTuple

FIXED = "fixed"  # of a note: a later submission of the same script, without the option
_TEXT = re.compile(r"([1-9]\d{0,5})-([1-9]\d{0,5})(?::([1-9]\d{0,5}))?", re.ASCII)


class ElasticSizes(NamedTuple):
    """The sizes of an elastic job, in GPUs.

    Attributes:
        least: The fewest.
        most: The most.
        step: Sizes differ from the requested number of GPUs by multiples of it.
    """

    least: int
    most: int
    step: int = 1


def read(text: object) -> ElasticSizes | None:
    """Return the sizes of a text as `known` returns it; None for any other value."""
    found = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    sizes = ElasticSizes(int(found[1]), int(found[2]), int(found[3] or 1))
    return sizes if sizes.least <= sizes.most else None


def known(value: object) -> str:
    """Return `value` where it states sizes or `fixed`, else "": it comes from a file of the user."""
    return value if isinstance(value, str) and (value == FIXED or read(value)) else ""
