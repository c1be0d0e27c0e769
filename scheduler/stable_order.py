"""The stable order of whole numbers, such as rows of jobs: of equal ones, the first comes first.

numpy's stable sort of 64-bit numbers is a merge sort, which takes several times as long as its other sort. So each number is sorted
with its place.
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Ints

_BITS = 63  # of a number that is not negative


def stable_order(numbers: Ints) -> Ints:
    """Return the places of the numbers in their rising order, shape (numbers,). None is negative. O(numbers log numbers)."""
    bits = len(numbers).bit_length()
    if len(numbers) and int(numbers.max()).bit_length() + bits > _BITS:
        return np.argsort(numbers, kind="stable")
    found: Ints = numbers << bits
    found |= np.arange(len(numbers))
    found.sort()
    found &= (1 << bits) - 1
    return found
