"""Policies of installed packages: checked when they are loaded, and each time they rank.

Whatever such a policy does wrong is a PluginError: it raises, takes too long, or returns a ranking that is none. What only words
and forecasts need never raises: there the defaults hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.estimates.completed_jobs import Completed
from tiresias.scheduler.model import ANYWHERE, Allocations, Floats, Jobs, JobState, Nodes, Snapshot
from tiresias.scheduler.plugin import Plugin, PluginError
from tiresias.scheduler.rank.policy import IncrementalPolicy, Policy, Ranking, Rows
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.topology_tree import Topology

GROUP = "tiresias.policies"

Result = TypeVar("Result")


def accepted(name: str, package: str, found: Any) -> Policy:
    """The registered class or object as a policy, which has ranked a small snapshot. Raises PluginError."""
    policy = _wrapped(Plugin(GROUP, name, package, found).instance("rank"))
    for jobs in (0, 3):
        policy.rank(_sample(jobs), PolicyConfig())
    return policy


class PluginPolicy(Policy):
    """A policy of an installed package."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin, self._found = plugin, plugin.found
        found = plugin.found
        self.preempts = bool(getattr(found, "preempts", Policy.preempts))
        self.blocks = bool(getattr(found, "blocks", Policy.blocks))
        self.spares = bool(getattr(found, "spares", Policy.spares))
        self.has_queues = bool(getattr(found, "has_queues", Policy.has_queues))
        self.refit_at = float(getattr(found, "refit_at", Policy.refit_at))
        self.release_rate = float(getattr(found, "release_rate", Policy.release_rate))

    def rank(self, snapshot: Snapshot, config: PolicyConfig) -> Ranking:
        """Return the ranking of the package, checked. Raises PluginError."""

        def checked() -> Ranking:
            return self._checked(self._found.rank(snapshot, config), len(snapshot.jobs))

        return self._plugin.guarded("rank()", checked)

    def promoted(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Return `promoted` of the package. Raises PluginError."""
        return self._try("promoted", jobs, now, config)

    def worth(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Return `worth` of the package. Raises PluginError."""
        return self._try("worth", jobs, now, config)

    def loss(self, jobs: Rows, backlog: float, now: float, config: PolicyConfig) -> Values:
        """Return `loss` of the package. Raises PluginError."""
        return self._try("loss", jobs, backlog, now, config)

    def drains(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Return `drains` of the package. Raises PluginError."""
        return self._try("drains", jobs, now, config)

    def fitted(self, completed: Completed, there: Rows, cluster: int = 0) -> Policy:
        """Return `fitted` of the package, as a checked policy. Raises PluginError."""
        return _wrapped(replace(self._plugin, found=self._try("fitted", completed, there)))

    def change(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Return `change` of the package; inf where it fails."""
        return self._or_default(math.inf, "change", jobs, now, config)

    def turn(self, now: float, config: PolicyConfig) -> float:
        """Return `turn` of the package; inf where it fails."""
        return float(self._or_default(math.inf, "turn", now, config))

    def changes(self, snapshot: Snapshot, config: PolicyConfig) -> Floats:
        """Return `changes` of the package; inf where it has none or fails."""
        never = np.full(len(snapshot.jobs), math.inf)
        return self._or_default(never, "changes", snapshot, config) if hasattr(self._found, "changes") else never

    def next_change(self, job: Rows, now: float, config: PolicyConfig) -> str:
        """Return `next_change` of the package, or a general text."""
        return str(self._or_default("its rank may change", "next_change", job, now, config))

    def standing(self, job: Rows, queue: int, now: float, config: PolicyConfig) -> str:
        """Return `standing` of the package; the queue where it fails."""
        return str(self._or_default(f"Q{queue + 1}", "standing", job, queue, now, config))

    def _try(self, method: str, *args: Any) -> Any:
        call = self._method(method)
        return self._plugin.guarded(f"{method}()", lambda: call(*args))

    def _or_default(self, default: Result, method: str, *args: Any) -> Result:
        try:
            result: Result = self._try(method, *args)
        except PluginError:
            return default
        return result

    def _method(self, name: str) -> Callable[..., Any]:
        """That of the package, else the default."""
        own: Callable[..., Any] = getattr(self._found, name, None) or getattr(Policy, name).__get__(self._found)
        return own

    def _checked(self, found: Any, jobs: int) -> Ranking:
        """Raises PluginError for what is no ranking of so many jobs."""
        try:
            order, queue, promoted = (np.asarray(getattr(found, one)) for one in ("order", "queue", "promoted"))
        except Exception as error:
            raise self._plugin.error(f"rank() returned no Ranking: {type(error).__name__}: {error}") from error
        if any(column.shape != (jobs,) for column in (order, queue, promoted)):
            raise self._plugin.error(f"rank() returned columns that have not one row for each of the {jobs} jobs")
        if order.dtype.kind not in "iu" or not np.array_equal(np.sort(order), np.arange(jobs)):
            raise self._plugin.error("rank() returned an order in which not every row stands once")
        if queue.dtype.kind not in "iu" or (queue < 0).any() or promoted.dtype.kind != "b":
            raise self._plugin.error("rank() returned queues that are no indexes, or promotions that are no booleans")
        return Ranking(order.astype(np.int64), queue.astype(np.int64), promoted.astype(np.bool_))


class PluginIncrementalPolicy(PluginPolicy, IncrementalPolicy):
    """An incremental policy of an installed package."""

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        """Return `keys` of the package. Raises PluginError."""
        keys: tuple[Values, ...] = self._try("keys", jobs, now, config, promoted)
        return keys

    def drifts(self, jobs: Rows, config: PolicyConfig) -> Values:
        """Return `drifts` of the package. Raises PluginError."""
        return self._try("drifts", jobs, config)

    def settled(self, keys: tuple[Values, ...], config: PolicyConfig) -> Values:
        """Return `settled` of the package. Raises PluginError."""
        return self._try("settled", keys, config)


def _wrapped(plugin: Plugin) -> Policy:
    kind = PluginIncrementalPolicy if isinstance(plugin.found, IncrementalPolicy) else PluginPolicy
    return kind(plugin)


def _sample(jobs: int) -> Snapshot:
    """A small snapshot on one node: a job that runs, and others that wait."""
    zeros, never, one = np.zeros(jobs), np.full(jobs, np.nan), np.ones(1, np.int64)
    runs = np.arange(jobs) == 0
    state = np.where(runs, int(JobState.RUNNING), int(JobState.WAITING)).astype(np.int64)
    ran, start = np.where(runs, 500.0, 0.0), np.where(runs, 500.0, np.nan)
    ids, gpus = tuple(str(row + 1) for row in range(jobs)), np.arange(1, jobs + 1)
    eligible, requests = np.ones(jobs, np.bool_), (ANYWHERE,) * jobs
    columns = Jobs(
        ids, gpus, zeros, state, ran, ran, 1000.0 - ran, start, start, never, runs, eligible, requests, zeros + 60.0
    )
    nodes = Nodes(
        ("node1",), 8 * one, Resources.of([7], [64.0], [1e6]), one == 1, Topology.of_groups([8]), ("",), (frozenset(),)
    )
    held = Resources.of([1], [1.0], [1.0])
    holds = Allocations(0 * one, 0 * one, held)
    none = Allocations(one[:0], one[:0], held.rows(one[:0]))
    return Snapshot(1000.0, columns, nodes, holds if jobs else none)
