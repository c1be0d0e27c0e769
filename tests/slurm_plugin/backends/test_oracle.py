"""The admission model against Slurm itself: held jobs are judged, then released to plain Slurm, and both must agree on which start
and, in Slurm's words, why the others wait."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from tiresias.sandbox.cluster import Cluster
from tiresias.slurm_plugin.admission.admissible import AdmissionResult, admission, not_restartable
from tiresias.slurm_plugin.backends.interface import SlurmJob

from .conftest import ACCOUNTED, Site, connect

pytestmark = [pytest.mark.sandbox, pytest.mark.ci]
SETTLED_S = 30.0
ONE_GPU = ("--gpus=1", "--time=60")


@dataclass(frozen=True)
class Case:
    """setup: commands of an admin. jobs: options of each job. waits: Slurm's reason for those that do not start, "" for none."""

    setup: Sequence[str]
    jobs: Sequence[Sequence[str]]
    starts: int
    waits: str
    after: Sequence[str] = ()  # commands of an admin once the jobs are submitted


def qos(limits: str, *flags: str) -> str:
    return f"sacctmgr -i modify qos tested set {limits}" + (f" flags={','.join(flags)}" if flags else "")


def maintenance(nodes: str, flags: str = "maint") -> str:
    when = "start=now+20minutes duration=60"
    return f"scontrol create reservation reservationname=tested {when} nodes={nodes} flags={flags} users=root"


TESTED = (*ONE_GPU, "--qos=tested")
PARTITION = "scontrol update partitionname=other"
CASES = {
    "array": Case([], [("--array=0-3%2", *ONE_GPU)], 2, "JobArrayTaskLimit"),
    "jobs of a user": Case([qos("MaxJobsPerUser=1")], [TESTED] * 3, 1, "QOSMaxJobsPerUserLimit"),
    "jobs of an account": Case([qos("MaxJobsPerAccount=2")], [TESTED] * 3, 2, "MaxJobsPerAccount"),
    "jobs of a QOS": Case([qos("GrpJobs=1")], [TESTED] * 2, 1, "QOSGrpJobsLimit"),
    "GPUs of a QOS": Case([qos("GrpTRES=gres/gpu=2")], [("--gpus=2", "--time=60", "--qos=tested")] * 3, 1, "QOSGrpGRES"),
    "GPUs of a user": Case([qos("MaxTRESPerUser=gres/gpu=1")], [TESTED] * 2, 1, "QOSMaxGRESPerUser"),
    "GPUs of an account": Case([qos("MaxTRESPerAccount=gres/gpu=1")], [TESTED] * 2, 1, "MaxGRESPerAccount"),
    "CPUs of a user": Case([qos("MaxTRESPerUser=cpu=3")], [(*TESTED, "--cpus-per-task=2")] * 2, 1, "QOSMaxCpuPerUserLimit"),
    "memory of a QOS": Case([qos("GrpTRES=mem=1500")], [(*TESTED, "--mem=1000")] * 2, 1, "QOSGrpMemLimit"),
    "GPUs of a job": Case([qos("MaxTRESPerJob=gres/gpu=1")], [(*TESTED, "--gpus=2")], 0, "QOSMaxGRESPerJob"),
    "GPUs at least": Case([qos("MinTRESPerJob=gres/gpu=2")], [TESTED], 0, "QOSMinGRES"),
    "minutes of running jobs": Case([qos("GrpTRESRunMins=gres/gpu=100")], [TESTED] * 2, 1, "QOSGrpGRESRunMinutes"),
    "time of a job": Case([qos("MaxWall=30")], [TESTED], 0, "QOSMaxWallDurationPerJobLimit"),
    "minutes used up": Case(
        ["sacctmgr -i modify account science set GrpTRESMins=gres/gpu=0"], [ONE_GPU], 0, "AssocGrpGRESMinutes"
    ),
    "GPUs of an association": Case(
        ["sacctmgr -i modify account science set GrpTRES=gres/gpu=2"], [ONE_GPU] * 3, 2, "AssocGrpGRES"
    ),
    "jobs of an association": Case(
        ["sacctmgr -i modify user alice set MaxJobs=1"], [ONE_GPU] * 2, 1, "AssocMaxJobsLimit"
    ),
    "a QOS instead of its association": Case(
        [qos("GrpTRES=gres/gpu=3"), "sacctmgr -i modify account science set GrpTRES=gres/gpu=1"], [TESTED] * 4, 3, "QOSGrpGRES"
    ),
    "the partition's QOS first": Case(
        [qos("MaxJobsPerUser=1"), "sacctmgr -i modify qos normal set MaxJobsPerUser=2", f"{PARTITION} qos=normal"],
        [(*TESTED, "--partition=other")] * 3, 2, "QOSMaxJobsPerUserLimit",
    ),
    "the job's QOS first": Case(
        [qos("MaxJobsPerUser=1", "OverPartQOS"), "sacctmgr -i modify qos normal set MaxJobsPerUser=2", f"{PARTITION} qos=normal"],
        [(*TESTED, "--partition=other")] * 3, 1, "QOSMaxJobsPerUserLimit",
    ),
    "licences": Case([], [(*ONE_GPU, "--licenses=matlab:2")] * 2, 1, "Licenses"),
    "time limit of a partition": Case(
        [], [(*ONE_GPU, "--partition=other")], 0, "PartitionTimeLimit", [f"{PARTITION} maxtime=10"]
    ),
    "nodes of a partition": Case(
        [], [("--nodes=2", "--gpus=2", "--partition=other")], 0, "PartitionNodeLimit", [f"{PARTITION} maxnodes=1"]
    ),
    "a partition that is down": Case([], [(*ONE_GPU, "--partition=other")], 0, "PartitionDown", [f"{PARTITION} state=down"]),
    "an inactive partition": Case(
        [], [(*ONE_GPU, "--partition=other")], 0, "PartitionInactive", [f"{PARTITION} state=inactive"]
    ),
    "maintenance of all nodes": Case(
        [maintenance("ALL")],
        [ONE_GPU, ("--gpus=1", "--time=5")], 1, "ReqNodeNotAvail",
    ),
    "maintenance of some nodes": Case(
        [maintenance("gpu01,gpu02")],
        [("--gpus=4", "--nodes=1", "--time=60")] * 2 + [("--gpus=1", "--time=5")], 3, "",
    ),
}  # fmt: skip
# The other generations, which need a tree with slurmdbd each: ORACLE_SITES="commands@trixie commands@bookworm"
SITES = os.environ.get("ORACLE_SITES", "pyslurm@forky commands@forky").split()


# Both back ends read the rules alike; the records of jobs are compared in the tests of the back ends.
@pytest.fixture(
    params=[pytest.param(one, marks=[pytest.mark.long] if one == "commands@forky" else []) for one in SITES]
)
def judged(request: pytest.FixtureRequest, cluster_of: Callable[..., Cluster]) -> Iterator[Site]:
    name, suite = request.param.split("@")
    cluster = cluster_of(suite, **ACCOUNTED)
    site = Site(cluster, connect(cluster, name, "tiresias"))
    clean(site)
    yield site
    clean(site)
    site.backend.close()


def admin(site: Site, *commands: str) -> None:
    for command in commands:
        site.cluster.run(["sh", "-c", command])


def clean(site: Site) -> None:
    """As before any case; a QOS keeps no flag and no usage."""
    admin(
        site,
        "scancel --user=alice",
        "scontrol delete reservationname=tested 2>/dev/null || true",
        f"{PARTITION} qos= maxtime=infinite maxnodes=unlimited state=up",
        "while squeue -h -u alice | grep -q .; do sleep 0.1; done",
        "sacctmgr -i modify user alice set qos=normal MaxJobs=-1; sacctmgr -i delete qos tested; sacctmgr -i add qos tested; "
        "sacctmgr -i modify user alice set qos=normal,tested; sacctmgr -i modify qos normal set MaxJobsPerUser=-1; "
        "sacctmgr -i modify account science set GrpTRES=gres/gpu=-1 GrpTRESMins=gres/gpu=-1",
    )


def verdict(site: Site, ids: Sequence[str]) -> tuple[AdmissionResult, list[SlurmJob]]:
    site.backend._rules._table_until = 0.0  # the admin has just changed them
    rules, jobs = site.backend.rules(), site.backend.snapshot().jobs
    waiting = [job for job in jobs if str(job.array_id or job.id) in ids and job.state == "PENDING"]
    return admission(rules, jobs, waiting, time.time()), waiting


def expected(found: AdmissionResult, waiting: Sequence[SlurmJob]) -> dict[str, str]:
    """By job: "" where it starts, else the reason; in the order in which plain Slurm takes them."""
    left = [quota.left for quota in found.quotas]
    answer: dict[str, str] = {}
    for job in sorted(waiting, key=lambda job: (job.submit_time, job.array_id or job.raw_id, job.id)):
        blocked = [quota.reason for at, quota in enumerate(found.quotas) if quota.amounts.get(job.id, 0) > left[at]]
        answer[job.id] = found.obstacle.get(job.id, "") or next(iter(blocked), "")
        if not answer[job.id]:
            left = [rest - quota.amounts.get(job.id, 0) for rest, quota in zip(left, found.quotas, strict=True)]
    return answer


def slurms(site: Site, ids: Sequence[str]) -> dict[str, str]:
    jobs = [job for job in site.backend.snapshot().jobs if str(job.array_id or job.id) in ids]
    return {job.id: "" if job.state == "RUNNING" else job.reason.partition(",")[0] for job in jobs}


@pytest.mark.parametrize("case", CASES)
def test_the_model_agrees_with_slurm(judged: Site, case: str) -> None:
    site, one = judged, CASES[case]
    admin(site, *one.setup)
    ids = [site.submit("--hold", *options) for options in one.jobs]
    admin(site, *one.after)
    until = time.monotonic() + SETTLED_S
    while True:  # what an admin changes in slurmdbd reaches slurmctld a moment later
        answer = expected(*verdict(site, ids))
        if sorted(answer.values()) == sorted([""] * one.starts + [one.waits] * (len(answer) - one.starts)):
            break
        assert time.monotonic() < until, answer
        time.sleep(0.3)
    site.cluster.run(
        ["scontrol", "release", *ids], user="alice", check=False
    )  # Slurm releases none of an inactive partition
    until = time.monotonic() + SETTLED_S
    while slurms(site, ids) != answer:
        assert time.monotonic() < until, (answer, slurms(site, ids))
        time.sleep(0.3)


def test_a_running_job_in_front_of_maintenance_cannot_start_again(judged: Site) -> None:
    job = judged.running(*ONE_GPU)
    assert not_restartable(judged.backend.rules(), [job], time.time()) == {}
    admin(judged, maintenance("ALL", "maint,ignore_jobs"))
    assert not_restartable(judged.backend.rules(), [job], time.time()) == {job.id: "ReqNodeNotAvail"}
