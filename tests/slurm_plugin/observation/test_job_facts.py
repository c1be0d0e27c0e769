"""Columns that are kept from cycle to cycle are those that a new observer makes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob, SlurmNode, SlurmSnapshot
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation.observer import Observer
from tiresias.slurm_plugin.state import avoided_nodes, own_tasks
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.ledger import Ledger

Make = Callable[..., SlurmJob]
NODES = tuple(
    SlurmNode(
        name=name, state="IDLE", flags=frozenset(), reason="", gpus=8, gpus_allocated=0, gpu_type="", cpus=16,
        cpus_allocated=0, memory=64000, memory_allocated=0, features=(), partitions=partitions,
    )
    for name, partitions in (("gpu01", ("gpu",)), ("gpu02", ("gpu", "large")), ("gpu03", ("large",)))
)  # fmt: skip
CONFIG = replace(Config(), partitions=("gpu", "large"), policy=replace(Config().policy, cooldown=30.0))


def changed(job: SlurmJob, what: str, now: int) -> SlurmJob | None:
    """Return the record after an event; None: Slurm has forgotten the job."""
    if what == "starts" and job.state == "PENDING" and not job.completing:
        shares = (NodeShare("gpu01", job.gpus, 4, 400),)
        return replace(job, state="RUNNING", priority=1, start_time=now, end_time=0, shares=shares)
    if what == "requeued" and job.state == "RUNNING":
        return replace(job, state="PENDING", completing=True, restarts=job.restarts + 1, end_time=now)
    if what == "settles" and job.completing:
        return replace(job, completing=False, shares=(), submit_time=now, begin_time=now + 121, start_time=0)
    if what == "runs on other nodes" and job.shares:
        return replace(job, shares=tuple(NodeShare(name, 1, 2, 200) for name in ("gpu02", "gpu03")))
    if what == "delayed":
        return replace(job, begin_time=now + 50)
    return None if what == "gone" else replace(job)  # else an equal record, read again


def noted(ledger: Ledger, job: SlurmJob, what: str, now: int) -> None:
    """Change the row of a job as a cycle does."""
    row = ledger.jobs[job.id]
    if what == "avoids":
        avoided_nodes.note_slow(row, frozenset({"gpu01"}), now)
    elif what == "promoted":
        row.reset = now
    elif what == "held":
        row.held = not row.held
    elif what == "steps":
        ledger.note_progress(row, now)
    elif what == "preempted":
        row.last_preempted, row.preemptions = now, row.preemptions + 1
    elif what == "late":
        ledger.saves.note_late(row, now)
    elif what == "costs":
        ledger.usage.note(row, job.restarts, restore=3.0, save=now % 7.0)
    elif what == "forgotten":
        ledger.forget(row, now)
    elif what == "backs off":
        row.not_before = now + 20


def changed_node(node: SlurmNode, what: str) -> SlurmNode:
    """Return the record of a node after an event."""
    if what == "drained":
        return replace(node, flags=frozenset() if node.flags else frozenset({"DRAIN"}), state="DOWN")
    if what == "moved":
        return replace(node, features=("rack2",), partitions=("large",) if "gpu" in node.partitions else ("gpu",))
    if what == "filled":
        return replace(node, gpus_allocated=node.gpus - node.gpus_allocated, state="MIXED")
    return replace(node, name=f"{node.name[:5]}x") if what == "renamed" else replace(node)


def values(found: Any) -> Any:
    """Return what two snapshots are compared by."""
    if dataclasses.is_dataclass(found):
        return [values(getattr(found, each.name)) for each in dataclasses.fields(found)]
    return found.tolist() if isinstance(found, np.ndarray) else found


RECORD = ("starts", "requeued", "settles", "delayed", "gone", "again", "runs on other nodes")
NODE = ("drained", "moved", "renamed", "read again", "filled")
ROW = ("preempted", "avoids", "promoted", "held", "steps", "backs off", "late", "costs", "forgotten")
SEVERAL = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from((*RECORD, *ROW, *NODE, "arrives", "to start"))), max_size=4
)
STEPS = st.lists(st.tuples(SEVERAL, st.integers(1, 40)), max_size=15)
EVENTS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(RECORD + ROW + NODE), st.integers(1, 40)), max_size=25)


class Changing:
    """A cluster whose jobs and nodes change, and a ledger and an observer that have seen all of it."""

    def __init__(self, journal: Journal, pending: Make) -> None:
        self.ledger, self.now, self.nodes = Ledger(journal, Scope.of(CONFIG)), 1000, list(NODES)
        self.kept, self.pending = Observer(CONFIG, self.ledger), pending
        self.jobs = {each: self.arrived(each) for each in range(1, 6)}
        self.intents: dict[str, Intent] = {}

    def arrived(self, number: int) -> SlurmJob:
        partition = "gpu" if number % 2 else "gpu,large"
        times = {"submit_time": self.now, "begin_time": self.now}
        return self.pending(id=str(number), raw_id=number, gpus=2, priority=1, partition=partition, **times)

    def change_records(self, changes: list[tuple[int, str]]) -> None:
        for at, what in changes:
            if what in NODE:
                self.nodes[at % 3] = changed_node(self.nodes[at % 3], what)
            if at in self.jobs and what in RECORD:
                found = changed(self.jobs.pop(at), what, self.now)
                self.jobs |= {at: found} if found else {}
            if what == "arrives":  # also with the id of one that goes on, or is gone
                self.jobs[at] = self.arrived(at)

    def change_rows(self, changes: list[tuple[int, str]]) -> None:
        for at, what in changes:
            row = self.ledger.jobs.get(str(at))
            if row is not None and at in self.jobs and what in ROW:
                noted(self.ledger, self.jobs[at], what, self.now)
            if what == "to start" and row:
                start = Intent(row.key, row.id, 0, IntentKind.START, IntentStep.START, (("gpu02", 2),))
                self.intents = {row.id: start}

    def check(self, slurm: SlurmSnapshot, managed: list[SlurmJob]) -> None:
        """Compare with an observer that has seen nothing before."""
        kept, new, now = self.kept, Observer(CONFIG, self.ledger), self.now
        managed = [job for job in managed if job.id in self.ledger.jobs]
        intents = {job: one for job, one in self.intents.items() if self.ledger.jobs.get(job)}
        found = [values(each.observe(slurm, managed, intents)) for each in (kept, new)]
        assert repr(found[0]) == repr(found[1])
        runs = [job for job in managed if job.state == "RUNNING"]
        assert kept.preemptability.why_each(runs, now) == [new.preemptability.why_unmovable(job, now) for job in runs]
        assert kept.waiting(managed, now) == new.waiting(managed, now)
        assert kept.next_settled(managed, now) == new.next_settled(managed, now)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_snapshot_does_not_depend_on_those_before_it(
    tmp_path_factory: pytest.TempPathFactory, pending: Make, steps: list[tuple[list[tuple[int, str]], int]]
) -> None:
    journal = Journal(tmp_path_factory.mktemp("state"))
    cluster = Changing(journal, pending)
    for changes, seconds in steps:
        cluster.now += seconds
        cluster.change_records(changes)
        slurm = SlurmSnapshot(cluster.now, tuple(cluster.jobs.values()), tuple(cluster.nodes))
        managed, rows = cluster.ledger.apply(slurm), cluster.ledger.jobs
        assert managed == [own_tasks.restored(rows[job.id], job) for job in slurm.jobs if job.id in rows]
        cluster.change_rows(changes)
        cluster.check(slurm, managed)
        cluster.check(slurm, managed)
    journal.close()


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENTS)
def test_a_record_that_has_not_changed_is_applied_once(
    tmp_path_factory: pytest.TempPathFactory, pending: Make, events: list[tuple[int, str, int]]
) -> None:
    """A ledger that gets the same records again ends with the rows and runs of one that gets equal ones, read anew."""
    first, second = (Journal(tmp_path_factory.mktemp("state")) for _ in range(2))
    kept, anew = Ledger(first, Scope.of(CONFIG)), Ledger(second, Scope.of(CONFIG))
    jobs, now = {each: pending(id=str(each), raw_id=each, gpus=2) for each in range(1, 6)}, 1000
    for at, what, seconds in events:
        now += seconds
        if at in jobs and what in RECORD:
            found = changed(jobs.pop(at), what, now)
            jobs |= {at: found} if found else {}
        read_again = tuple(map(replace, jobs.values()))
        managed = kept.apply(SlurmSnapshot(now, tuple(jobs.values()), NODES))
        assert managed == anew.apply(SlurmSnapshot(now, read_again, NODES))
        if at in jobs and what in ROW:
            for ledger in (kept, anew):
                noted(ledger, jobs[at], what, now)
        assert (kept.jobs, kept.runs) == (anew.jobs, anew.runs)
    first.close()
    second.close()
