"""Which sizes of an elastic job Slurm's limits allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.slurm_plugin.admission.test_admissible import NOW, runs, site, waits
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmNode, SlurmSnapshot
from tiresias.slurm_plugin.backends.slurm_rules import Partition, Qos, SlurmRules
from tiresias.slurm_plugin.observation.possible_sizes import possible_sizes
from tiresias.slurm_plugin.state.journal_rows import JobRow

NO_NODES: tuple[SlurmNode, ...] = ()
GPUS = "gres/gpu"


def sizes(rules: SlurmRules, *jobs: SlurmJob, stated: str = "1-8") -> tuple[int, int]:
    """Return the range of the first job."""
    least, _, most = stated.partition("-")
    row = JobRow("1@1", jobs[0].id, 1, 1.0, min_gpus=int(least), max_gpus=int(most.partition(":")[0]), elastic=stated)
    found = possible_sizes(rules, SlurmSnapshot(NOW, jobs, NO_NODES), jobs[:1], {jobs[0].id: row})
    return found[jobs[0].id]


def tasks(job: SlurmJob, gpus: int) -> SlurmJob:
    return replace(job, gpus=gpus, tasks=gpus, cpus=2 * gpus)


@pytest.mark.parametrize(
    ("qos", "expected"),
    [
        (Qos(name="normal"), (1, 8)),
        (Qos(name="normal", max_tres={GPUS: 4.0}), (1, 4)),
        (Qos(name="normal", max_tres={"cpu": 11.0}), (1, 5)),
        (Qos(name="normal", min_tres={GPUS: 2.0}), (2, 8)),
        (Qos(name="normal", max_tres_user={GPUS: 6.0}), (1, 4)),
        (Qos(name="normal", grp_tres={GPUS: 3.0}), (1, 2)),
    ],
)
def test_a_waiting_job_counts_what_others_hold(qos: Qos, expected: tuple[int, int]) -> None:
    other = tasks(runs(2), 2)
    own = tasks(waits(1), 2)
    if qos.grp_tres:
        other = tasks(other, 1)
    assert sizes(site(qos), own, other) == expected


def test_a_running_job_counts_what_it_holds_as_free() -> None:
    own, other = tasks(runs(1), 4), tasks(runs(2), 2)
    assert sizes(site(Qos(name="normal", grp_tres={GPUS: 8.0})), own, other) == (1, 6)
    assert sizes(site(Qos(name="normal", max_tres={GPUS: 4.0})), own, other) == (1, 4)


def test_sizes_of_whole_nodes_keep_to_the_nodes_of_the_partition() -> None:
    own = replace(tasks(waits(1), 4), tasks=1, cpus=4, gpus_per_node=4)
    rules = replace(site(), partitions={"gpu": Partition("gpu", nodes=("gpu01", "gpu02"), max_nodes=2)})
    assert sizes(rules, own, stated="4-16") == (4, 8)


def test_steps_are_kept() -> None:
    own = tasks(waits(1), 4)
    assert sizes(site(Qos(name="normal", max_tres={GPUS: 9.0})), own, stated="1-16:3") == (1, 7)


def test_without_enforcement_all_sizes_are_possible() -> None:
    rules = site(Qos(name="normal", max_tres={GPUS: 4.0}), enforce=frozenset())
    assert sizes(rules, tasks(waits(1), 2)) == (1, 8)
