"""The controller ranks by the run times in the journal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tiresias.durable.leadership import Leadership
from tiresias.scheduler.config import PolicyConfig
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmLoad, SlurmNode, SlurmSnapshot
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules
from tiresias.slurm_plugin.cluster.site import Site
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.controller import Controller
from tiresias.slurm_plugin.sockets.peer import Peer
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow

NOW = 50_000.0
NODE = SlurmNode(
    name="gpu01", state="IDLE", flags=frozenset(), reason="", gpus=4, gpus_allocated=0, gpu_type="", cpus=16,
    cpus_allocated=0, memory=64000, memory_allocated=0, features=(), partitions=("gpu",),
)  # fmt: skip


class ReadOnlyBackend:
    """The operations of a back end that a controller in mode shadow uses."""

    name, why = "memory", ""

    def __init__(self, *jobs: SlurmJob) -> None:
        self.jobs = jobs

    def version(self) -> str:
        return "26.05.0"

    def topology(self, name: str = "") -> str:
        return ""

    def load(self, uid: int) -> SlurmLoad:
        return SlurmLoad(0, 0, 0, 0, 0.0)

    def rules(self) -> SlurmRules:
        return SlurmRules()

    def snapshot(self) -> SlurmSnapshot:
        return SlurmSnapshot(NOW, self.jobs, (NODE,))


def remember(journal: Journal, job_id: str, ran: float, ended: bool) -> None:
    key = f"{job_id}@1000"
    journal.save_job(JobRow(key, job_id, 1001, 1000.0, preemptions=1, last_preempted=1000.0 + ran, ended=ended))
    journal.save_run(RunRow(key, 0, 1000.0, 1000.0 + ran, 4, "gpu01:4"))


@pytest.mark.parametrize(("past", "first"), [(0, "2"), (50, "1")])
def test_a_job_near_the_usual_run_time_starts_first(
    journal: Journal, leadership: Leadership, pending: Callable[..., SlurmJob], past: int, first: str
) -> None:
    """One job ran for 3,000 s, the other for 100 s. All that have ended took an hour."""
    for number in range(past):
        remember(journal, str(100 + number), 3600.0, ended=True)
    for job_id, ran in (("1", 3000.0), ("2", 100.0)):
        remember(journal, job_id, ran, ended=False)
    waiting = [pending(id=job_id, restarts=1, submit_time=4001, priority=1) for job_id in ("1", "2")]
    site, config = Site("cluster", "gpu", frozenset({"gpu"}), ()), Config(policy=PolicyConfig("adaptive"))
    one = Controller(config, ReadOnlyBackend(*waiting), journal, leadership, site, lambda: NOW)  # type: ignore[arg-type]
    one.cycle()
    reported = {
        shown["job"]: shown["why"] for shown in one.publisher.answer({"op": "status"}, Peer(0, 0, 0))["decisions"]
    }
    assert reported == {first: "would start on gpu01"}
    assert one.next_change > NOW
