"""Stage size: how many GPUs each waiting job gets when it starts.

`fixed` gives each job the GPUs that it requested. An installed package adds an implementation as an entry point of the group
`tiresias.sizing`: a class without arguments, or an object, with a method `sizes`.

The number of GPUs of a job is chosen at its first start, and the job keeps it. That of an elastic job is chosen at each start; a
running one is preempted where another size pays (`elastic_jobs.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from tiresias.scheduler import stages
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Ints, Jobs, JobState, Plan, Snapshot
from tiresias.scheduler.plugin import Plugin
from tiresias.scheduler.registry import Registry
from tiresias.scheduler.size.elastic_jobs import is_elastic, preemption_costs
from tiresias.scheduler.size.predicted_seconds import best_splits
from tiresias.scheduler.size.sampling import Samples, with_samples
from tiresias.scheduler.size.server_choice import with_gpus


class Sizing(Protocol):
    """How many GPUs each job gets."""

    def sizes(self, snapshot: Snapshot, order: Ints) -> Ints:
        """Return the number of GPUs of each job, shape (jobs,), 1 or more. It counts for jobs that have not started yet, and for
        elastic ones.

        Args:
            snapshot: Jobs, nodes and allocations. `jobs.gpus` has what each job requested, and what running jobs hold;
                `jobs.preemption_cost`, where there are elastic jobs, the configured cost where none was measured.
            order: Rows of the jobs, the most urgent first.
        """


class ServerSplit(Protocol):
    """A sizing that also chooses how many of the GPUs of a job its parameter servers get; the others take the fastest split."""

    def servers(self, jobs: Jobs) -> Ints:
        """Return the parameter servers of each job, shape (jobs,), for `jobs.gpus`."""


class Fixed:
    """Each job gets the GPUs that it requested."""

    def sizes(self, snapshot: Snapshot, order: Ints) -> Ints:
        """Return the requested GPUs."""
        return snapshot.jobs.gpus


FIXED = Fixed()


class PluginSizing:
    """A sizing of an installed package, with checked results."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin

    def sizes(self, snapshot: Snapshot, order: Ints) -> Ints:
        """Raises PluginError where the sizing fails or does not return a possible number for each job."""
        jobs = snapshot.jobs
        try:
            found = np.asarray(self._plugin.call("sizes", snapshot, order))
        except (TypeError, ValueError):
            found = np.empty(0)
        if found.shape != (len(jobs),) or found.dtype.kind not in "iu":
            raise self._plugin.error("sizes() returned not one whole number for each job")
        most = np.maximum(jobs.gpus, snapshot.nodes.gpus.sum())
        if wrong := np.flatnonzero((found < 1) | (found > most)).tolist():
            row = wrong[0]
            raise self._plugin.error(
                f"sizes() returned {found[row]} GPUs for job {jobs.id[row]}; allowed: 1 to {most[row]}"
            )
        return found.astype(np.int64)


def accepted(name: str, package: str, found: Any) -> Sizing:
    """Return the registered class or object as a sizing with checked results. Raises PluginError for what is no sizing."""
    return PluginSizing(Plugin(SIZINGS.group, name, package, found).instance("sizes"))


SIZINGS: Registry[Sizing] = stages.SIZINGS


def sized(snapshot: Snapshot, config: PolicyConfig, order: Ints) -> tuple[Snapshot, Samples]:
    """Return the snapshot with the number of GPUs with which each job starts, and the sizes that were found.

    Jobs that have started keep their number, unless they wait and are elastic.

    Raises:
        PluginError: A sizing of a package fails.
    """
    jobs = snapshot.jobs
    sizing: Any = SIZINGS[config.sizing]
    found = with_samples(
        snapshot, config, order, sizing.sizes(_with_costs(snapshot, config), order), getattr(sizing, "predicts", False)
    )
    sizes = found.sizes
    if sizes is jobs.gpus:
        return snapshot, found
    open_sizes = (jobs.state == JobState.WAITING) & (np.isnan(jobs.first_start) | is_elastic(jobs))
    return replace(snapshot, jobs=with_gpus(jobs, np.where(open_sizes, sizes, jobs.gpus))), found


def weighs_cost(sizing: str) -> bool:
    """Return whether running jobs get more GPUs only where that gains more than it costs: always, except under some baselines."""
    return bool(getattr(SIZINGS[sizing], "weighs_cost", True))


def with_servers(plan: Plan, jobs: Jobs, sizing: str, found: Samples) -> Plan:
    """Return the plan with the parameter servers of each job, if any job has them. found: the sizes of the jobs."""
    if jobs.servers is None or not jobs.servers.any():
        return plan
    chosen: Any = SIZINGS[sizing]
    servers = chosen.servers(jobs) if hasattr(chosen, "servers") else best_splits(jobs)
    is_sample = found.sampled & (jobs.gpus == found.sizes) & (found.servers > 0)
    return replace(plan, servers=np.where(is_sample, found.servers, servers))


def _with_costs(snapshot: Snapshot, config: PolicyConfig) -> Snapshot:
    """Return the snapshot with the configured cost of a preemption where none was measured, if there are elastic jobs."""
    if snapshot.jobs.gpu_step is None:
        return snapshot
    return replace(snapshot, jobs=replace(snapshot.jobs, preemption_cost=preemption_costs(snapshot.jobs, config)))
