"""Confidence intervals of means."""

from __future__ import annotations

from typing import NamedTuple

from tiresias.scheduler.model import Floats

# The 97.5th percentile of Student's t by the number of values; between two of these, that of the smaller number.
STUDENT_95 = {2: 12.7, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 8: 2.36, 10: 2.26, 20: 2.09, 30: 2.05, 100: 1.98}


class MeanInterval(NamedTuple):
    """A mean and its 95% confidence interval."""

    mean: float
    low: float
    high: float


def mean_interval(values: Floats) -> MeanInterval:
    """Return the mean and its 95% confidence interval by Student's t; infinite for one value.

    Args:
        values: Independent values, shape (count,), at least one.
    """
    middle, count = float(values.mean()), len(values)
    student = STUDENT_95[max(each for each in STUDENT_95 if each <= max(count, 2))]
    half = student * float(values.std(ddof=1)) / count**0.5 if count > 1 else float("inf")
    return MeanInterval(middle, middle - half, middle + half)
