"""The actor with a real journal and a real ledger, on a back end in memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.slurm_plugin.transitions.in_memory_backend import InMemoryBackend
from tiresias.protocol.control import JobReport
from tiresias.scheduler.model import Plan, Preempt, Start
from tiresias.slurm_plugin.act import Actor
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import PreemptionConfig
from tiresias.slurm_plugin.state.intents import Intent
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.state.ledger import Ledger

Make = Callable[..., SlurmJob]
NODES = (("gpu02", 4),)
NO_ROWS = np.zeros(0, np.int64)
CONFIG = PreemptionConfig(deadline=20.0, start_timeout=30.0, backoff=60.0)


class ActorHarness:
    """An actor, the back end and the jobs' report; `poll` takes a cycle's snapshot and advances each intent once."""

    def __init__(self, journal: Journal, job: SlurmJob) -> None:
        self.slurm, self.journal, self.report = InMemoryBackend(job), journal, JobReport()
        self.restart_controller()

    def restart_controller(self) -> None:
        """Start with the journal alone, as a controller after its start."""
        self.ledger = Ledger(self.journal, Scope(frozenset({"gpu"})))
        self.actor = Actor(
            self.slurm, self.journal, self.ledger, CONFIG, lambda job: self.report, part_types=("s0", "s1")
        )
        self.refresh()

    def refresh(self) -> list[SlurmJob]:
        managed = self.ledger.apply(self.slurm.snapshot())
        self.actor.see(managed)
        return managed

    def poll(self, now: float) -> None:
        self.refresh()
        self.actor.advance(now)

    def preempt(self, now: float = 1100.0) -> None:
        self.actor.begin(Plan(NO_ROWS, NO_ROWS, NO_ROWS, actions=(Preempt("1", "2"),)), now)

    def start(self, now: float = 1100.0, parts: tuple[tuple[int, ...], ...] = ()) -> None:
        self.actor.begin(Plan(NO_ROWS, NO_ROWS, NO_ROWS, actions=(Start("1", NODES, parts=parts),)), now)

    def wait_in_vain(self, reason: str) -> None:
        """Start the job, which Slurm does not start for this reason; a snapshot shows it."""
        self.slurm.starts = False
        self.start()
        self.actor.advance(1100.0)
        self.slurm.change(reason=reason)
        self.refresh()

    def report_parked(self, restart: int = 0) -> None:
        self.report = JobReport(restart, "parked", True, 7)

    @property
    def row(self) -> JobRow:
        return self.ledger.jobs["1"]

    @property
    def job(self) -> SlurmJob:
        return self.slurm.jobs["1"]

    def intents(self) -> list[Intent]:
        """Return the open intents of job 1."""
        return [one for one in self.journal.open_intents() if one.id == "1"]

    def news(self) -> list[str]:
        """Return the decisions on job 1."""
        return [f"{one.action}: {one.why}" for one in self.actor.context.news if one.id == "1"]
