"""Stage evict: which running jobs release their GPUs for waiting jobs, and whether that is worth the cost.

The walk of pseudocode 2 selects the jobs that hold GPUs next. The running jobs that it does not select are its victims; this stage
decides which of them release their GPUs. A victim whose GPUs no start needs keeps them in any case. Preemptions that defragment
nodes are a choice of their own (`policy.defragment`, defragment.py).

An installed package adds an implementation as an entry point of the group `tiresias.eviction`: a class without arguments, or an
object, with a method `released`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tiresias.scheduler import stages
from tiresias.scheduler.model import Bools, Floats, Ints, Snapshot
from tiresias.scheduler.plugin import Plugin
from tiresias.scheduler.registry import Registry

_BY_ORDER = ("by_policy", "by_rank")  # evictions that weigh nothing unless the policy does


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """The result of the walk: the jobs that compete for GPUs, in its order; arrays of shape (competing jobs,).

    Attributes:
        rows: Rows of the jobs in the snapshot.
        gpus: GPUs that each job holds, or would get.
        runs: Whether it holds GPUs now; the others wait.
        selected: Whether the walk selected it.
        worth: What the start of each waiting job is worth (`Policy.worth`).
        loss: What the preemption of each running job costs, in the same unit (`Policy.loss`).
        release_rate: GPUs that running jobs release per second by ending (`Policy.release_rate`).
        capacity: GPUs of all selected jobs together, at most.
        weighs: Whether the policy weighs the cost of preemptions (`Policy.spares`).
    """

    rows: Ints
    gpus: Ints
    runs: Bools
    selected: Bools
    worth: Floats
    loss: Floats
    release_rate: float
    capacity: int
    weighs: bool

    @property
    def starters(self) -> Bools:
        """Waiting jobs that the walk selected."""
        return self.selected & np.logical_not(self.runs)

    @property
    def victims(self) -> Bools:
        """Running jobs that the walk did not select."""
        return self.runs & np.logical_not(self.selected)

    @property
    def free(self) -> int:
        """GPUs that are unallocated once all starters have started and all victims have released their GPUs."""
        return self.capacity - int(self.gpus[self.selected].sum())


class Eviction(Protocol):
    """Which victims of the walk release their GPUs."""

    def released(self, snapshot: Snapshot, walk: Walk) -> Bools:
        """Return whether each job of the walk releases its GPUs, shape (competing jobs,). It counts for victims only.

        Victims that keep their GPUs take them from the last starters.
        """


class PluginEviction:
    """An eviction of an installed package, with checked results."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin

    def released(self, snapshot: Snapshot, walk: Walk) -> Bools:
        """Raises PluginError where the eviction fails or does not return a boolean for each job."""
        try:
            found = np.asarray(self._plugin.call("released", snapshot, walk))
        except (TypeError, ValueError):
            found = np.empty(0)
        if found.shape != (len(walk.rows),) or found.dtype.kind != "b":
            raise self._plugin.error("released() returned not one boolean for each job of the walk")
        return found.astype(np.bool_)


def accepted(name: str, package: str, found: Any) -> Eviction:
    """Return the registered class or object as an eviction with checked results. Raises PluginError for what is none."""
    return PluginEviction(Plugin(EVICTIONS.group, name, package, found).instance("released"))


EVICTIONS: Registry[Eviction] = stages.EVICTIONS


def releases_by_order(eviction: str, spares: bool) -> bool:
    """Return whether all victims of the walk release their GPUs, so that the order of the jobs alone decides.

    Args:
        eviction: The name in `policy.eviction`.
        spares: As of the policy.
    """
    return eviction in _BY_ORDER and not spares
