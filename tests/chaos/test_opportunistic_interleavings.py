"""As test_interleavings.py, with a virtual cluster: opportunistic runs are preempted for it, by checkpoint or by a restart.

Beyond what test_interleavings.py checks: a run is ended without a checkpoint only where its owner accepts that, or where it did not
save although it was let in as a job that saves; what is lost by it is in the journal.
"""

from __future__ import annotations

import itertools
import random
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.chaos.model_job import GPUS, ModelJob
from tests.chaos.test_interleavings import FEW, Interleavings, picks
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.slurm_plugin.config import Config, VirtualClusterConfig

OWNER_ACCOUNT = "prod"  # of the virtual cluster, which owns one of the two nodes
CONFINED = ("dumb", "ignores", "slow")  # jobs that may not run beyond the cells, at first or once they were late


class OpportunisticInterleavings(Interleavings):
    """Jobs of the virtual cluster, and of none."""

    def configuration(self) -> Config:
        base = super().configuration()
        policy = replace(base.policy, admission="virtual_clusters")
        tenant = DeclaredTenant(OWNER_ACCOUNT, (DeclaredCells("node", 1),))
        own = VirtualClusterConfig(tenant=tenant, policy=policy, accounts=(OWNER_ACCOUNT,))
        return replace(base, policy=policy, virtual_clusters=(own,))

    @precondition(lambda self: self.submitted < 8)
    @rule(points=st.integers(1, 40), calls=st.integers(1, 12), fails=st.sampled_from(["killed", "no answer", ""]))
    def owner_needs_gpus(self, points: int, calls: int, fails: str) -> None:
        """A job of the virtual cluster arrives while one that cannot save runs on all GPUs."""
        self.occupy()
        self.submit_of_owner(4, 4.0)
        if fails == "killed":
            self.kill_soon(points)
        elif fails:
            self.slurm_fails_soon(calls)
        self.work(4)

    def occupy(self) -> None:
        self._submit(8, 15.0, "restart", False)
        self.work(4)

    @precondition(lambda self: self.submitted < 9)
    @rule(
        gpus=st.sampled_from([1, 2, 4, 8]),
        work=st.sampled_from([1.0, 4.0, 20.0]),
        habit=st.sampled_from(["restart", "restart", "restart", "good", "slow", "ignores", "dumb"]),
        hook=st.booleans(),
    )
    def submit(self, gpus: int, work: float, habit: str, hook: bool) -> None:
        if habit in CONFINED:
            self._submit(min(gpus, 4), work, habit, hook, OWNER_ACCOUNT)
        else:
            self._submit(gpus, work, habit, hook)

    @precondition(lambda self: self.submitted < 9)
    @rule(gpus=st.sampled_from([1, 2, 4]), work=st.sampled_from([1.0, 4.0, 20.0]))
    def submit_of_owner(self, gpus: int, work: float) -> None:
        self._submit(gpus, work, "good", False, OWNER_ACCOUNT)

    @precondition(lambda self: self.slurm.jobs)
    @rule(pick=picks, joins=st.booleans())
    def move(self, pick: int, joins: bool) -> None:
        """To the account of the virtual cluster, or out of it, where it may run there."""
        job = self._pick(pick)
        if job.gpus <= GPUS if joins else job.habit not in CONFINED:
            self.slurm.move(job, OWNER_ACCOUNT if joins else "")

    def _run_to_the_end(self) -> None:
        super()._run_to_the_end()
        query = "select id, key, restart, outcome from intent where kind = 'restart' and outcome != ''"
        for job_id, key, restart, outcome in self._query(query):
            self._check_ended_run(job_id, key, restart, outcome)

    def _check_ended_run(self, job_id: str, key: str, restart: int, outcome: str) -> None:
        job = self._job_of_run(job_id, key, restart)
        assert job.choice != "yes", f"job {job_id}: its owner does not accept the end of its run: {outcome}"
        if outcome.startswith("restarted"):
            [(lost, pause)] = self._query(f"select lost, pause from run where key = '{key}' and restart = {restart}")
            assert lost is not None, f"job {job_id}: what was lost is not in the journal"
            assert pause is None, f"job {job_id}: it counts as a job that saved"

    def _job_of_run(self, job_id: str, key: str, restart: int) -> ModelJob:
        """By its start: the key of a job that was first seen after a requeue is not that of its submission."""
        [(start,)] = self._query(f"select start from run where key = '{key}' and restart = {restart}")
        alike = [one for one in [*self.past, *self.slurm.jobs.values()] if one.id == job_id]
        return next(one for one in alike if (restart, start) in {(run.restart, run.start) for run in one.runs})

    def _query(self, query: str) -> list[tuple[Any, ...]]:
        with sqlite3.connect(f"file:{self.folder}/journal.sqlite?mode=ro", uri=True) as db:
            found = db.execute(query).fetchall()
        db.close()
        return found


class MoreOpportunisticInterleavings(OpportunisticInterleavings):
    """The same with more examples, for `make test-long`."""


def claimed(fail: Callable[[OpportunisticInterleavings, int], None], number: int) -> bool:
    """Let the owner of cells claim GPUs of a run that cannot save, with a failure at this call or write.

    Returns whether the failure happened; what must hold at the end is checked.
    """
    machine = OpportunisticInterleavings()
    machine.open()
    try:
        machine.occupy()
        assert machine.slurm.jobs["1"].state == "RUNNING"
        machine.submit_of_owner(4, 4.0)
        fail(machine, number)
        machine.work(4)
        pending = max(machine.points_left, machine.calls_left) > 0
    finally:
        machine.teardown()
    return not pending


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "stride"),
    [
        (OpportunisticInterleavings.kill_soon, 4),
        pytest.param(OpportunisticInterleavings.kill_soon, 1, marks=pytest.mark.long),
        (OpportunisticInterleavings.slurm_fails_soon, 1),
    ],
)
def test_a_preemption_by_restart_survives_a_failure_at_every_point(
    how: Callable[[OpportunisticInterleavings, int], None], stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, check = list[str](), OpportunisticInterleavings._check_ended_run

    def counted(self: OpportunisticInterleavings, job_id: str, key: str, restart: int, outcome: str) -> None:
        ended.append(outcome)
        check(self, job_id, key, restart, outcome)

    monkeypatch.setattr(OpportunisticInterleavings, "_check_ended_run", counted)
    numbers = range(random.randint(1, stride), 1000, stride)
    points = len(list(itertools.takewhile(lambda number: claimed(how, number), numbers)))
    assert points * stride > 10, "the failures are at calls and writes of the preemption"
    assert sum(outcome.startswith("restarted") for outcome in ended) == points + 1, "each run was ended once"


OpportunisticInterleavings.TestCase.settings = settings(FEW, max_examples=14)
MoreOpportunisticInterleavings.TestCase.settings = settings(FEW, max_examples=100)
TestOpportunisticInterleavings = pytest.mark.slow(OpportunisticInterleavings.TestCase)
TestMoreOpportunisticInterleavings = pytest.mark.slow(pytest.mark.long(MoreOpportunisticInterleavings.TestCase))
