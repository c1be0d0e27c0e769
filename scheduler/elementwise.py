"""Arithmetic that is written once for one job and for all of them: numbers in, a number out; arrays in, an array out.

`decide` ranks ten thousand jobs by arrays, the simulator keeps its jobs in order one at a time; both use the same formulas.
Conditions are combined with `&` and `|`, never negated with `~`, which means something else for Python's bool.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

Values: TypeAlias = Any  # a number, or an array of shape (jobs,)
Columns: TypeAlias = tuple[Values, ...]

# `Final`: compiled code need not look the name up. Results of these functions are as little known in advance as their arguments.
_ARRAY: Final[type[Any]] = np.ndarray
_NUMPY: Final[Any] = np


def where(condition: Values, yes: Values, no: Values) -> Values:
    """Return `yes` where the condition holds, else `no`."""
    if isinstance(condition, _ARRAY):
        return _NUMPY.where(condition, yes, no)
    return yes if condition else no


def either(condition: Values, yes: Callable[..., Columns], no: Callable[..., Columns], *of: Any) -> Columns:
    """`yes(*of)` where the condition holds, else `no(*of)`. Of one job only what holds is worked out."""
    if isinstance(condition, _ARRAY):
        return tuple(_NUMPY.where(condition, one, other) for one, other in zip(yes(*of), no(*of), strict=True))
    return yes(*of) if condition else no(*of)


def both(condition: Values, other: Callable[..., Values], *of: Any) -> Values:
    """Return where the condition and `other(*of)` hold. The latter is worked out only if the condition holds for a job."""
    holds = condition.any() if isinstance(condition, _ARRAY) else condition
    return condition & other(*of) if holds else condition


def larger(one: Values, other: Values) -> Values:
    """Return the larger of two values."""
    if isinstance(one, _ARRAY) or isinstance(other, _ARRAY):
        return _NUMPY.maximum(one, other)
    return one if one > other else other


def smaller(one: Values, other: Values) -> Values:
    """Return the smaller of two values."""
    if isinstance(one, _ARRAY) or isinstance(other, _ARRAY):
        return _NUMPY.minimum(one, other)
    return one if one < other else other


def known(moment: Values, otherwise: Values) -> Values:
    """`otherwise` where the moment is nan, for never."""
    is_known = moment == moment  # nan is not equal to itself
    if isinstance(is_known, _ARRAY):
        return _NUMPY.where(is_known, moment, otherwise)
    return moment if is_known else otherwise


def rounded(value: Values, digits: int) -> Values:
    """Return the value rounded to so many digits."""
    return _NUMPY.round(value, digits) if isinstance(value, _ARRAY) else round(value, digits)


def to_millisecond(moment: Values) -> Values:
    """Return the finite moment rounded to milliseconds. As numpy does: `round` of so many digits takes several times as long."""
    return _NUMPY.round(moment, 3) if isinstance(moment, _ARRAY) else round(moment * 1000.0) / 1000.0


def whole(value: Values) -> Values:
    """The next whole number below."""
    return _NUMPY.floor(value) if isinstance(value, _ARRAY) else float(value // 1)


def interval(limits: Sequence[float], value: Values) -> Values:
    """How many of the rising limits are at or below the value."""
    if isinstance(value, _ARRAY):
        return _NUMPY.searchsorted(limits, value, side="right").astype(_NUMPY.int64)
    return bisect_right(limits, value)


def pick(values: Sequence[Any], index: Values) -> Values:
    """Return the value at each index."""
    return _NUMPY.asarray(values)[index] if isinstance(index, _ARRAY) else values[index]
