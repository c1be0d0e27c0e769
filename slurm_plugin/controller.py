"""The controller: one cycle after the other, each observe -> decide -> act -> publish (cycle/). daemon.py decides when."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from tiresias.durable.database import StateError, Unwritable
from tiresias.durable.leadership import Leadership
from tiresias.errors import Unavailable
from tiresias.scheduler import garbage_collection
from tiresias.slurm_plugin.backends.interface import Backend
from tiresias.slurm_plugin.calls.traffic import bucket
from tiresias.slurm_plugin.cluster.partition_pools import PartitionPools
from tiresias.slurm_plugin.cluster.site import Site
from tiresias.slurm_plugin.cluster.tenant_pools import check_cells, check_change, guarantees_cells
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.cycle.act_stage import ActStage
from tiresias.slurm_plugin.cycle.cycle_context import CycleContext, CycleStage, Decided
from tiresias.slurm_plugin.cycle.decide_stage import DecideStage
from tiresias.slurm_plugin.cycle.estimate_stage import EstimateStage
from tiresias.slurm_plugin.cycle.first_cells import FirstCells
from tiresias.slurm_plugin.cycle.giving_back import release, remove_comments
from tiresias.slurm_plugin.cycle.job_memory import recall
from tiresias.slurm_plugin.cycle.observe_stage import ObserveStage
from tiresias.slurm_plugin.cycle.operator_switches import OperatorSwitches
from tiresias.slurm_plugin.cycle.publish_stage import PublishStage
from tiresias.slurm_plugin.cycle.services import ServiceEvents, assemble, write_versions
from tiresias.slurm_plugin.failover.standby import HAND_OVER_NOTE
from tiresias.slurm_plugin.state.intents import Intent, Notice
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import Decision
from tiresias.slurm_plugin.state.switches import refuse_if_stopped

log = logging.getLogger("tiresias")

STOP_LIMIT_S = 10.0  # that a stopping controller gives the preemptions under way


class Controller:
    """One cycle at a time.

    Attributes:
        publisher: answers viewers.
        times: of cycles and snapshots.
        switches: what administrators switch: pause, resume, stop.
        before_publication: called in each cycle before it is published; returns alarms of what runs this controller.
        hand_over_requested: another controller is to lead.
        leaving_since: epoch second since when a job that the controller does not preempt releases GPUs; inf: none does.
        next_change: epoch second at which the plan changes though nothing happens; inf for never.
    """

    def __init__(
        self,
        config: Config,
        backend: Backend,
        journal: Journal,
        leadership: Leadership,
        site: Site,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """clock: epoch seconds."""
        self._progress: Callable[[], None] = lambda: None
        self.before_publication: Callable[[], Collection[str]] = list
        events = ServiceEvents(
            lambda: self._memory.refusals.forget(), lambda: self._progress(), lambda: self.before_publication()
        )
        self._services, self._budget = assemble(config, backend, journal, leadership, site, clock, events)
        self.publisher, self.times = self._services.publisher, self._services.times
        self.switches = OperatorSwitches(journal, clock)
        self._is_ahead = False  # of what is written
        self._config, self._site, self._pools = config, site, PartitionPools(config)
        self._comments = self._services.comment_writer(config, site, self._intents)
        self._admission_waits = frozenset({config.admission_wait})  # that job_submit.lua may have given to a job
        self._decided: Decided | None = None  # in the newest cycle
        self._recall()
        self._to_decide = ObserveStage(self._services), DecideStage(self._services)
        self._once: tuple[CycleStage, ...] = (FirstCells(self._services),)  # in the first cycle
        self._to_act = (
            ActStage(self._services),
            PublishStage(self._services, self._budget.version()),
            EstimateStage(self._services),
        )
        self.hand_over_requested, self.leaving_since, self.next_change = False, math.inf, math.inf

    @classmethod
    def leading(
        cls, config: Config, backend: Backend, leadership: Leadership, site: Site, though_stopped: bool = False
    ) -> Controller:
        """Return one that continues from the journal, in the epoch of `leadership`.

        Raises UsageError where no controller is to lead, except `though_stopped`: only to release."""
        journal = Journal(Path(config.paths.state), leadership.epoch)
        try:
            if not though_stopped:
                refuse_if_stopped(journal)
                write_versions(config)
            return cls(config, backend, journal, leadership, site)
        except BaseException:
            journal.close()
            raise

    def cycle(self) -> None:
        """One cycle. Raises Unavailable when Slurm, the lease or the journal cannot be reached: nothing is lost, the next cycle
        continues. Raises Superseded when another controller leads."""
        self._run(*self._to_decide, *self._once, *self._to_act)
        self._once = ()

    def _run(self, *stages: CycleStage) -> None:
        with self._no_further_than_written(), garbage_collection.suspended():
            began = self._services.clock()
            self._services.leadership.renew()
            self._services.allowance.begin_cycle()
            context = CycleContext(
                self._config, self._site, self._memory, self._pools, self._comments, self.switches.paused, began
            )
            try:
                for stage in stages:
                    stage.run(context)
            finally:
                self._take_results(context)

    def _take_results(self, context: CycleContext) -> None:
        """As far as the cycle came."""
        self._decided = context.decided or self._decided
        self.hand_over_requested |= HAND_OVER_NOTE in context.notes
        if context.next_change is not None:
            self.next_change = context.next_change
        if context.unmanaged_releases is not None:
            since = min(self.leaving_since, context.slurm.time)
            self.leaving_since = since if context.unmanaged_releases else math.inf

    def poll(self) -> bool:
        """Poll what is under way, without a snapshot; True when a job came a step further. Raises as cycle does."""
        with self._no_further_than_written():
            before = self._memory.actor.steps()
            self._memory.actor.advance(self._services.clock())
            return self._memory.actor.steps() != before

    @contextlib.contextmanager
    def _no_further_than_written(self) -> Iterator[None]:
        """What cannot be journaled is not done. Memory may be ahead then: it goes back to the journal, as after a crash."""
        if self._is_ahead:
            self._recall()
        try:
            with self._services.journal.collected():
                yield
        except Unwritable:
            self._is_ahead = True
            raise

    def _recall(self) -> None:
        self._memory = recall(self._services, self._config, self._admission_waits, self._comments.field)
        self._is_ahead = False
        self.switches.refresh()

    @property
    def moving(self) -> bool:
        """Whether something is under way that only a poll finds out about."""
        return self._memory.actor.needs_polls

    @property
    def words(self) -> str:
        """A line for systemctl status."""
        line = f"{self._config.mode}: {len(self._memory.ledger.jobs)} jobs, {self.times.words}"
        return line + ("; preemptions are paused" if self.switches.paused else "")

    def _intents(self) -> Collection[Intent]:
        return self._memory.actor.intents.values()

    def wait_for_calls(self) -> float:
        """Seconds until there are enough calls for a cycle and something that it begins."""
        return self._services.allowance.wait(self._intents())

    def on_progress(self, call: Callable[[], None]) -> None:
        """Register what is called wherever some of a long cycle's work is done."""
        self._progress = call

    def reconfigure(self, config: Config, site: Site, changes: Sequence[str]) -> None:
        """Use another configuration from the next cycle on, which begins with what the journal has, as a new controller does: no
        job is held or released for it.

        Raises:
            UsageError: A running job would lose cells of its virtual cluster, or cells do not fit the nodes: the old one stays.
            StateError: The changes cannot be journaled: the old one stays.
            Unavailable: Whether jobs would lose cells cannot be found out now: the old one stays.
        """
        self._check_cells(config)
        decisions = self._services.decisions
        decisions.add(self._memory.actor.take_news())
        decisions.add_uncounted(Decision(self._services.clock(), "", Notice.RELOAD, "; ".join(changes)))
        limit = bucket(config.rpc, site.rate_limit)
        self._budget.bucket.resize(limit.size, limit.rate)
        if _order(config) != _order(self._config):
            self._pools = PartitionPools(config)
        self._admission_waits |= {config.admission_wait}
        if (config.mode, config.comment.field) != (self._config.mode, self._config.comment.field):
            remove_comments(self._services, self._memory, self._comments)
        self._comments = self._services.comment_writer(config, site, self._intents)
        self._config, self._site, self._is_ahead = config, site, True

    def _check_cells(self, config: Config) -> None:
        """Raises UsageError as `reconfigure`. Slurm is asked again: starts since the newest snapshot count."""
        if _cells(config) == _cells(self._config):
            return
        self._run(*self._to_decide)
        assert self._decided is not None
        if not guarantees_cells(self._config):  # no job has cells to lose
            return check_cells(config, self._decided.snapshot.nodes)
        of = config.virtual_cluster_of
        clusters = {job.id: of(job.account, job.qos, job.partition) for job in self._decided.managed}
        return check_change(config, self._decided.snapshot, clusters)

    # the end

    def stop(self) -> list[str]:
        """Finish the preemptions under way, then lift the holds. Returns what could not be lifted."""
        deadline = self._services.clock() + STOP_LIMIT_S
        try:
            while self.moving and self._services.clock() < deadline:
                self.poll()
                time.sleep(self._config.poll)
        except (Unavailable, StateError) as error:
            log.warning("%s", error)
        return self.release()

    def release(self) -> list[str]:
        """Lift the holds. Returns what could not be lifted."""
        return release(self._services, self._memory, self._comments, admits=self._config.admits)

    def close(self) -> None:
        """Close the journal."""
        self._services.journal.close()


def _cells(config: Config) -> tuple[object, ...]:
    """Return all of a configuration on which the cells of running jobs depend."""
    return config.virtual_clusters, config.policy.admission


def _order(config: Config) -> tuple[object, ...]:
    """Return all of a configuration on which the pools depend."""
    return config.policy, config.partition_policies, config.virtual_clusters
