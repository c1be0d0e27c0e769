"""Stage admit: which waiting jobs may hold GPUs, besides what Slurm's own rules allow.

Slurm's rules come first in every case: `Jobs.eligible` and the quotas (quotas.py). `shared` admits all jobs to one pool of GPUs, as
the paper does. An installed package adds a rule as an entry point of the group `tiresias.admission`: a class without arguments, or
an object, with a method `admitted`.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tiresias.scheduler import stages
from tiresias.scheduler.model import Bools, Ints, JobState, Snapshot
from tiresias.scheduler.plugin import Plugin
from tiresias.scheduler.registry import Registry

_WAITING = int(JobState.WAITING)  # compares faster


class AdmissionRule(Protocol):
    """Which jobs may hold GPUs."""

    def admitted(self, snapshot: Snapshot, order: Ints) -> Bools:
        """Whether each job may start now, shape (jobs,). Only waiting jobs count: a running job stays admitted.

        Args:
            snapshot: Jobs, nodes and allocations.
            order: Rows of the jobs, the most urgent first.
        """


class Shared:
    """All jobs share one pool of GPUs (the paper's pseudocode 2)."""

    def admitted(self, snapshot: Snapshot, order: Ints) -> Bools:
        """Return True for each job."""
        return np.ones(len(snapshot.jobs), np.bool_)


SHARED = Shared()


class PluginRule:
    """A rule of an installed package, with checked results."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin

    def admitted(self, snapshot: Snapshot, order: Ints) -> Bools:
        """Raises PluginError where the rule fails or does not return a boolean for each job."""
        try:
            allowed = np.asarray(self._plugin.call("admitted", snapshot, order))
        except (TypeError, ValueError):
            allowed = np.empty(0)
        if allowed.shape != (len(snapshot.jobs),) or allowed.dtype.kind != "b":
            raise self._plugin.error("admitted() returned not one boolean for each job")
        return allowed.astype(np.bool_)


def accepted(name: str, package: str, found: Any) -> AdmissionRule:
    """Return the registered class or object as a rule with checked results. Raises PluginError for what is no rule."""
    return PluginRule(Plugin(ADMISSION.group, name, package, found).instance("admitted"))


ADMISSION: Registry[AdmissionRule] = stages.ADMISSION


def not_admitted(snapshot: Snapshot, rule: str, order: Ints) -> Bools:
    """Waiting jobs that the rule of that name does not admit, shape (jobs,)."""
    waits: Bools = snapshot.jobs.state == _WAITING
    return waits & np.logical_not(ADMISSION[rule].admitted(snapshot, order))
