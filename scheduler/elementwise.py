"""Arithmetic that is written once for one job and for all of them: numbers in, a number out; arrays in, an array out.

`decide` ranks ten thousand jobs by arrays, the simulator keeps its jobs in order one at a time; both use the same formulas.
Conditions are combined with `&` and `|`, never negated with `~`, which means something else for Python's bool.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy import ndarray  # found faster than np.ndarray, which each call would look up

Values: TypeAlias = Any  # a number, or an array of shape (jobs,)
Columns: TypeAlias = tuple[Values, ...]

_numpy: Any = np  # of values whose kind is known at run time only, so is the kind of the result


def where(condition: Values, yes: Values, no: Values) -> Values:
    """Return `yes` where the condition holds, else `no`."""
    if isinstance(condition, ndarray):
        return _numpy.where(condition, yes, no)
    return yes if condition else no


def either(condition: Values, yes: Callable[..., Columns], no: Callable[..., Columns], *of: Any) -> Columns:
    """`yes(*of)` where the condition holds, else `no(*of)`. Of one job only what holds is worked out."""
    if isinstance(condition, ndarray):
        return tuple(_numpy.where(condition, one, other) for one, other in zip(yes(*of), no(*of), strict=True))
    return yes(*of) if condition else no(*of)


def larger(one: Values, other: Values) -> Values:
    """Return the larger of two values."""
    if isinstance(one, ndarray) or isinstance(other, ndarray):
        return _numpy.maximum(one, other)
    return one if one > other else other


def smaller(one: Values, other: Values) -> Values:
    """Return the smaller of two values."""
    if isinstance(one, ndarray) or isinstance(other, ndarray):
        return _numpy.minimum(one, other)
    return one if one < other else other


def known(moment: Values, otherwise: Values) -> Values:
    """`otherwise` where the moment is nan, for never."""
    is_known = moment == moment  # nan is not equal to itself
    if isinstance(is_known, ndarray):
        return _numpy.where(is_known, moment, otherwise)
    return moment if is_known else otherwise


def rounded(value: Values, digits: int) -> Values:
    """Return the value rounded to so many digits."""
    return _numpy.round(value, digits) if isinstance(value, ndarray) else round(value, digits)


def whole(value: Values) -> Values:
    """The next whole number below."""
    return _numpy.floor(value) if isinstance(value, ndarray) else float(value // 1)


def interval(limits: Sequence[float], value: Values) -> Values:
    """How many of the rising limits are at or below the value."""
    if isinstance(value, ndarray):
        return _numpy.searchsorted(limits, value, side="right").astype(_numpy.int64)
    return bisect_right(limits, value)


def pick(values: Sequence[float], index: Values) -> Values:
    """Return the value at each index."""
    return _numpy.asarray(values)[index] if isinstance(index, ndarray) else values[index]
