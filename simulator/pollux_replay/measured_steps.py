"""Measured seconds of a training step by nodes, GPUs and samples a GPU, interpolated between the measured sizes.

scipy, the extra `optimum`, is imported where it is used, as little else needs it.

A file has the columns model,num_nodes,num_gpus,local_bsz,step_time_s,sync_time_s: a whole step of all GPUs, and the part of it in
which the gradients are reduced. Other columns are ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from tiresias.errors import TiresiasError
from tiresias.scheduler.model import Floats
from tiresias.simulator.formats import cells
from tiresias.simulator.formats.table import Layout, read_table
from tiresias.simulator.formats.trace_file import opened

_SIZES = ("num_nodes", "num_gpus", "local_bsz")
_TIMES = ("step_time_s", "sync_time_s")
_LAYOUT = Layout(numbers=dict.fromkeys((*_SIZES, *_TIMES), cells.numbers), words={"model": cells.words})


Interpolator = Callable[[float, float, float], Floats]  # of nodes, GPUs and samples a GPU


@dataclass(frozen=True, eq=False)
class MeasuredSteps:
    """What was measured of one model.

    Attributes:
        sizes: Nodes, GPUs and samples a GPU, each combination once, shape (sizes, 3).
        seconds: Of a step, and of the reduction in it, shape (sizes, 2).
    """

    sizes: Floats
    seconds: Floats

    @cached_property
    def _interpolators(self) -> tuple[Interpolator, Interpolator]:
        """Between the measured sizes, and beyond them."""
        try:
            from scipy.interpolate import (  # type: ignore[import-untyped, import-not-found, unused-ignore]
                LinearNDInterpolator,
                NearestNDInterpolator,
            )
        except ImportError:
            raise TiresiasError("measured step times need scipy: pip install 'slurm-tiresias[optimum]'") from None
        beyond = NearestNDInterpolator(self.sizes, self.seconds, rescale=True)
        return LinearNDInterpolator(self.sizes, self.seconds), beyond

    @property
    def most_samples(self) -> int:
        """The most samples a GPU that were measured."""
        return int(self.sizes[:, 2].max())

    def at(self, nodes: int, gpus: int, samples: float) -> tuple[float, float]:
        """Return the seconds of a step and of the reduction in it, with so many samples a GPU."""
        same = (self.sizes[:, 0] == nodes) & (self.sizes[:, 1] == gpus)
        if same.any():
            measured, times = self.sizes[same, 2], self.seconds[same]
            order = np.argsort(measured)
            step, sync = (float(np.interp(samples, measured[order], column[order])) for column in times.T)
            return step, sync
        between, beyond = (each(nodes, gpus, samples).reshape(2) for each in self._interpolators)
        step, sync = np.where(np.isfinite(between), between, beyond).tolist()
        return step, sync


def read_measured_steps(file: Path) -> dict[str, MeasuredSteps]:
    """Return what was measured, by model. Rows of equal size are averaged: they differ in the GPUs of each node.

    Raises:
        UsageError: The file cannot be read, or is no such table.
    """
    with opened(file, lambda rows: None) as source:
        table = read_table(source, _LAYOUT)
    models = np.array(table.words["model"])
    sizes, seconds = (np.stack([table.numbers[name] for name in names], axis=1) for names in (_SIZES, _TIMES))
    return {str(model): _averaged(sizes[models == model], seconds[models == model]) for model in np.unique(models)}


def _averaged(sizes: Floats, seconds: Floats) -> MeasuredSteps:
    different, of = np.unique(sizes, axis=0, return_inverse=True)
    sums = np.zeros((len(different), seconds.shape[1]))
    np.add.at(sums, of.ravel(), seconds)
    return MeasuredSteps(different, sums / np.bincount(of.ravel())[:, None])
