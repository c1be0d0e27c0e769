"""Which size of a job to measure next, so that few measured sizes determine its speed model (Optimus, section 3.2). Pure.

Before any measurement a speed model expects a mean and a standard deviation of each of its coefficients. A measured size narrows
what is plausible. The next sample is the size after which the seconds a step of all sizes of the job have the least mean variance,
by the slopes of the expected model (an I-optimal design, one size after the other).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.estimates.speed_fit import NOISE
from tiresias.scheduler.estimates.speed_forms import ALL_REDUCE, SYNCHRONOUS
from tiresias.scheduler.model import Floats

MOST_TOTALS = 48  # different numbers of GPUs that are compared, evenly chosen from those of the job
_MOST_SPLITS = 8  # into servers and workers, of one number of GPUs


class SampledSize(NamedTuple):
    """A size: parameter servers, 0 where the job has none, and GPUs, those of servers among them."""

    servers: int
    gpus: int


class SampleSpan(NamedTuple):
    """The sizes that a job can have.

    Attributes:
        least, most: GPUs, 1 or more.
        step: Between two sizes, 1 or more.
        gpus_per_node: GPUs of a node on which it is placed, 1 or more.
        has_servers: Some of its GPUs are parameter servers, one at least.
    """

    least: int
    most: int
    step: int
    gpus_per_node: int
    has_servers: bool = False


def next_sample(span: SampleSpan, measured: Sequence[tuple[int, int]], most: int, but: int = 0) -> SampledSize | None:
    """Return the size to measure next; None where all possible sizes are measured.

    Args:
        span: The sizes of the job.
        measured: Those at which it was measured, as (servers, GPUs).
        most: GPUs that it can have now.
        but: GPUs that the next size does not have, as those of a running job; 0: any.
    """
    return _next_sample(span, tuple(sorted(map(tuple, measured))), min(most, span.most), but)


@lru_cache(maxsize=4096)
def _next_sample(span: SampleSpan, measured: tuple[tuple[int, int], ...], most: int, but: int) -> SampledSize | None:
    sizes = possible_sizes(span, most)
    known = set(measured)
    places = [at for at, one in enumerate(sizes) if one.gpus <= most and one.gpus != but and one not in known]
    if not places:
        return None
    slopes = _slopes(span, sizes)
    before = _slopes(span, [SampledSize(*one) for one in measured], sizes)
    plausible = np.linalg.inv(np.eye(slopes.shape[1]) + before.T @ before / NOISE**2)
    together = slopes @ plausible @ slopes.T
    less = (together**2).sum(axis=0) / (NOISE**2 + together.diagonal())
    return sizes[max(places, key=lambda at: round(float(less[at]), 9))]  # of equal ones the first


@lru_cache(maxsize=1024)
def possible_sizes(span: SampleSpan, most: int) -> tuple[SampledSize, ...]:
    """Return the sizes that are compared, the smallest first. Among them is the largest one of at most `most` GPUs."""
    totals = range(span.least, span.most + 1, span.step)
    chosen = {totals[int(at)] for at in np.linspace(0, len(totals) - 1, min(len(totals), MOST_TOTALS)).round()}
    chosen |= {max((one for one in totals if one <= most), default=span.least)}
    return tuple(size for gpus in sorted(chosen) for size in _splits(gpus, span.has_servers))


def _splits(gpus: int, has_servers: bool) -> list[SampledSize]:
    if not has_servers:
        return [SampledSize(0, gpus)]
    servers = {int(one) for one in np.linspace(1, gpus - 1, min(gpus - 1, _MOST_SPLITS)).round()} if gpus > 1 else ()
    return [SampledSize(one, gpus) for one in sorted(servers)]


def _slopes(span: SampleSpan, sizes: Sequence[SampledSize], usual: Sequence[SampledSize] = ()) -> Floats:
    """Return the change of the logarithm of a step by a standard deviation of each coefficient, shape (sizes, coefficients).

    Args:
        span: The sizes of the job.
        sizes: Some sizes.
        usual: The sizes for whose geometric mean coefficients are expected; (): `sizes`.
    """
    form = SYNCHRONOUS if span.has_servers else ALL_REDUCE
    expected = np.array(form.expected) / form.scales(_rows(span, usual or sizes))
    columns = form.matrix(_rows(span, sizes)) * expected
    return np.asarray(columns * np.array(form.spread) / columns.sum(axis=1, keepdims=True))


def _rows(span: SampleSpan, sizes: Sequence[SampledSize]) -> Floats:
    """Return the sizes as a speed form has them, shape (sizes, 3)."""
    servers, gpus = np.array(sizes, np.float64).reshape(-1, 2).T
    if span.has_servers:
        return np.stack([servers, gpus - servers, np.ones(len(gpus))], axis=1)
    return np.stack([np.ceil(gpus / span.gpus_per_node), gpus, 1.0 / np.maximum(gpus, 1.0)], axis=1)
