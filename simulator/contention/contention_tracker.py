"""The slowdown of each running job, kept up to date as jobs start and stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.estimates.interference import NO_INTERFERENCE, InterferenceModel
from tiresias.scheduler.model import Floats, Ints
from tiresias.simulator.contention.expected_interference import ExpectedInterference
from tiresias.simulator.contention.job_profiles import JobProfile, profile_of
from tiresias.simulator.contention.link_loads import LinkLoads
from tiresias.simulator.contention.server_loads import PartOfServer, ServerLoads
from tiresias.simulator.contention.step_slowdown import StepSlowdown, step_slowdown
from tiresias.simulator.topologies.network import Network
from tiresias.simulator.topologies.server_kinds import ServerKind


class JobSlowdowns(NamedTuple):
    """The mean slowdowns of jobs over their work; nan for a job that did not run. Arrays of shape (jobs,).

    Attributes:
        interference: Seconds that a second of work took because of other jobs on the same servers, 1 or more.
        network: The same because of the exchange of gradients.
    """

    interference: Floats
    network: Floats


class _Placed:
    """A job that runs."""

    __slots__ = ("base", "links", "parts", "profile", "since", "slowdown", "workers")

    def __init__(
        self, profile: JobProfile, parts: tuple[PartOfServer, ...], links: tuple[int, ...], since: float, base: float
    ) -> None:
        self.profile, self.parts, self.links, self.since, self.base = profile, parts, links, since, base
        self.workers = sum(sum(part.gpus) for part in parts)
        self.slowdown = StepSlowdown()


class ContentionTracker:
    """Jobs that start and stop, and the slowdowns that follow. Changes of the same moment are settled together.

    Args:
        models: The model of each row of the trace.
        kinds: The kind of each server.
        network: The network; None: it slows no job.
        interference: How jobs on one server slow each other; None: not at all.

    Attributes:
        servers: The jobs on each server.
        links: The jobs on each link; None: there is no network.
        table: What placements expect of the interference; None: nothing.
    """

    def __init__(
        self,
        models: Sequence[str],
        kinds: Sequence[ServerKind],
        network: Network | None,
        interference: InterferenceModel | None,
    ) -> None:
        self._models = models
        self.servers = ServerLoads(kinds, interference or NO_INTERFERENCE)
        self.links = LinkLoads(network) if network else None
        self._expected = ExpectedInterference(models, kinds[0], interference) if interference and models else None
        self.table = self._expected.table if self._expected else None
        self._placed: dict[int, _Placed] = {}
        self._changed_servers: set[int] = set()
        self._changed_links: set[int] = set()
        self._work = np.zeros(
            (len(models), 3)
        )  # of each row: seconds of work; beyond it by interference; by the network

    def start(self, row: int, parts: tuple[PartOfServer, ...], since: float, base: float = 1.0) -> None:
        """Add a job.

        Args:
            row: Of the trace.
            parts: What it has of its servers.
            since: When it makes progress, seconds.
            base: Seconds that a second of its work takes alone there.
        """
        links = self.links.links(part.server for part in parts) if self.links else ()
        job = self._placed[row] = _Placed(profile_of(self._models[row]), parts, links, since, base)
        self.servers.add(row, job.profile, parts)
        if self.links:
            self.links.add(row, links)
        self._touch(job)

    def stop(self, row: int, now: float) -> None:
        """Remove a job that makes no progress any more, if it is there."""
        job = self._placed.pop(row, None)
        if job is None:
            return
        self._count(row, job, now)
        self.servers.remove(row, job.parts)
        if self.links:
            self.links.remove(row, job.links)
        self._touch(job)

    def settle(self, now: float) -> list[tuple[int, float]]:
        """Return the rows of the jobs whose speed has changed, in ascending order, and the seconds that a second of work takes now.

        O(jobs that share a server or a link with one that started or stopped).
        """
        rows = self._unsettled()
        self._changed_servers.clear()
        self._changed_links.clear()
        return [(row, self.factor(row)) for row in sorted(rows) if self._update(row, now)]

    def _unsettled(self) -> set[int]:
        """Return the rows of the running jobs whose speed may have changed since the last call of `settle`."""
        rows = {row for server in self._changed_servers for row in self.servers.jobs(server)}
        if self.links:
            rows.update(row for link in self._changed_links for row in self.links.jobs(link))
        return rows

    def slowdown(self, row: int) -> StepSlowdown:
        """Return the present slowdown of a running job."""
        return self._placed[row].slowdown

    def factor(self, row: int) -> float:
        """Return the seconds that a second of work of a running job takes."""
        job = self._placed[row]
        return job.base * job.slowdown.total

    def kinds(self, rows: Ints) -> Ints | None:
        """Return the row of `table` for rows of the trace; None: there is no table."""
        return self._expected.kind[rows] if self._expected else None

    def rows(self) -> tuple[int, ...]:
        """Return the rows of the running jobs, in the order of their starts."""
        return tuple(self._placed)

    def parts(self, row: int) -> tuple[PartOfServer, ...]:
        """Return what a running job has of its servers."""
        return self._placed[row].parts

    def excess(self) -> float:
        """Return the seconds beyond one that a second of work of each running job takes, summed up over the jobs. Starts and stops
        that are not settled yet count."""
        unsettled = self._unsettled()
        found = (self._step(row, job) if row in unsettled else job.slowdown for row, job in self._placed.items())
        return sum(each.interference + each.network for each in found)

    def excess_with(self, row: int, parts: tuple[PartOfServer, ...], now: float) -> float:
        """Return what `excess` would return if a job started there. row, parts: as for `start`; now: seconds."""
        changed = set(self._changed_servers), set(self._changed_links)
        self.start(row, parts, now)
        found = self.excess()
        self.stop(row, now)
        self._changed_servers, self._changed_links = changed
        return found

    def slowdowns(self) -> JobSlowdowns:
        """Return the mean slowdown of each job over its work until now, runs that go on not included."""
        work = np.where(self._work[:, 0] > 0.0, self._work[:, 0], math.nan)
        return JobSlowdowns(1.0 + self._work[:, 1] / work, 1.0 + self._work[:, 2] / work)

    def _touch(self, job: _Placed) -> None:
        self._changed_servers.update(part.server for part in job.parts)
        self._changed_links.update(job.links)

    def _update(self, row: int, now: float) -> bool:
        job = self._placed[row]
        found = self._step(row, job)
        if found == job.slowdown:
            return False
        self._count(row, job, now)
        job.since, job.slowdown = max(job.since, now), found
        return True

    def _step(self, row: int, job: _Placed) -> StepSlowdown:
        interference = self.servers.slowdown(row, job.parts)
        if not self.links:
            return step_slowdown(job.profile, job.workers, interference, math.inf, math.inf)
        bandwidth = self.links.bandwidth(job.links)
        return step_slowdown(job.profile, job.workers, interference, bandwidth, self.links.best_bandwidth(job.workers))

    def _count(self, row: int, job: _Placed, now: float) -> None:
        work = max(now - job.since, 0.0) / (job.base * job.slowdown.total)
        self._work[row] += (work, work * job.slowdown.interference, work * job.slowdown.network)
