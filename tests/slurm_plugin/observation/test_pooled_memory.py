"""What `decide` sees of remote memory, which jobs request by a licence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.slurm_plugin.observation.test_observer import NODES
from tiresias.protocol import remote_memory_license
from tiresias.scheduler.admit.remote_memory import REMOTE_MEMORY
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Snapshot
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.backends.slurm_rules import License, SlurmRules
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation.observer import Observer
from tiresias.slurm_plugin.state.ledger import Ledger

Make = Callable[..., SlurmJob]
RULES = SlurmRules(licenses={"remote_memory": License("remote_memory", total=1000)})
ONE_DONOR_MIB = 32000.0  # of NODES: half of a node


def observed(ledger: Ledger, rules: SlurmRules, *jobs: SlurmJob) -> Snapshot:
    slurm = SlurmSnapshot(5000.0, jobs, NODES)
    return Observer(Config(), ledger).observe(slurm, ledger.apply(slurm), {}, rules=rules)


def test_a_job_starts_where_donors_have_its_memory_and_the_next_one_waits(ledger: Ledger, pending: Make) -> None:
    jobs = [
        replace(pending(raw_id=at, id=str(at), priority=1), gpus=1, licenses="remote_memory:30", memory_per_node=1000)
        for at in (1, 2, 3)
    ]
    snapshot = observed(ledger, RULES, *jobs)
    assert [one.remote_memory for one in snapshot.jobs.request] == [30720.0] * 3
    assert snapshot.nodes.lendable is not None
    assert snapshot.nodes.lendable.tolist() == [ONE_DONOR_MIB] * 2
    assert [quota.left for quota in snapshot.quotas if quota.reason == REMOTE_MEMORY] == [2 * ONE_DONOR_MIB]
    assert [start.job for start in decide(snapshot, Config().policy).starts] == ["1", "2"]


def test_what_jobs_of_slurm_alone_have_is_promised(ledger: Ledger, pending: Make, running: Make) -> None:
    other = replace(
        running(1000, raw_id=9, id="9"), partition="cpu", gpus=0, licenses="remote_memory:32",
        shares=(NodeShare("gpu01", 0, 4, 40000),),
    )  # fmt: skip
    waits = replace(pending(raw_id=1, id="1", priority=1), gpus=1, licenses="remote_memory:30")
    snapshot = observed(ledger, RULES, other, waits)
    lent = (64000 - 40000 - 8000) + ONE_DONOR_MIB
    assert snapshot.nodes.lendable is not None
    assert snapshot.nodes.lendable.sum() == pytest.approx(lent - 32 * 1024)
    assert not decide(snapshot, Config().policy).starts


def test_without_the_licence_nothing_is_computed(ledger: Ledger, pending: Make) -> None:
    snapshot = observed(ledger, SlurmRules(), replace(pending(raw_id=1, id="1", priority=1), gpus=1))
    assert snapshot.nodes.lendable is None
    assert not snapshot.quotas


def test_the_option_rounds_up_to_gibibytes() -> None:
    assert remote_memory_license.option(1) == "remote_memory:1"
    assert remote_memory_license.option(65536) == "remote_memory:64"
    assert remote_memory_license.option(65537) == "remote_memory:65"
