"""Which kinds of jobs are alike, by their names: a kind is a model with numbers, such as `ResNet-18 (batch size 16)` or `DLRM,8,2`.

Kinds whose names differ only in numbers that stand alone are one family. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Floats

_NUMBER = re.compile(r"(?<![\w.-])\d{1,15}(?![\w.])")
_SCALE = 2.0  # doublings of a number by which kinds of a family are e times less alike


class JobKind(NamedTuple):
    """A kind of job.

    Attributes:
        family: The name with # for each number that stands alone.
        numbers: These numbers, such as the batch size and the GPUs.
    """

    family: str
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, name: str) -> JobKind:
        """Return the kind with a name."""
        return cls(_NUMBER.sub("#", name), tuple(map(int, _NUMBER.findall(name))))


def alike(names: Sequence[str]) -> Floats:
    """Return how alike kinds are, shape (kinds, kinds): 1 or less the more the numbers differ; 0: of two families."""
    kinds = [JobKind.of(name) for name in names]
    found = np.zeros((len(kinds), len(kinds)))
    for family in {kind.family for kind in kinds}:
        rows = np.array([row for row, kind in enumerate(kinds) if kind.family == family])
        sizes = np.log2(
            np.array([kinds[row].numbers for row in rows.tolist()], np.float64).reshape(len(rows), -1) + 1.0
        )
        doublings = np.abs(sizes[:, None] - sizes[None, :]).sum(axis=-1)
        found[np.ix_(rows, rows)] = np.exp(-doublings / _SCALE)
    return found
