"""Jobs that Slurm would not start: no training is preempted for them, and they keep no GPU from other jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.sandbox
Centre = Any  # conftest.py
QOS = {
    "onejob": "MaxJobsPerUser=1",
    "twogpus": "GrpTRES=gres/gpu=2",
    "onegpu": "MaxTRESPerUser=gres/gpu=1",
}


@pytest.fixture(params=["pyslurm", pytest.param("commands", marks=pytest.mark.long)])
def limited(request: pytest.FixtureRequest, centre_of: Any) -> Iterator[Centre]:
    """With slurmdbd and the QOS above. `make test` has one test with commands; tests/slurm_plugin/backends compares both."""
    centre = centre_of("forky", accounting=True)
    for name, limit in QOS.items():
        centre.cluster.run(["sacctmgr", "-i", "add", "qos", name, "set", limit], check=False)
    centre.cluster.run(["sacctmgr", "-i", "modify", "user", "alice,bob", "set", f"qos+={','.join(QOS)}"])
    centre.restart(backend=request.param)
    yield centre
    centre.clean()
    centre.stop()


def fill(centre: Centre) -> list[str]:
    """Trainings in the second queue on all GPUs."""
    old = [centre.train(gpus=4, seconds=300) for _ in range(4)]
    for job in old:
        centre.trains(job)
    centre.until(lambda: all(centre.published(job).get("queue") == 1 for job in old), "they do not sink", *old)
    return old


def preempted(centre: Centre, jobs: list[str]) -> list[str]:
    return [job for job in jobs if centre.said(job, "preempt")]


@pytest.mark.parametrize("limited", ["pyslurm", "commands"], indirect=True)
def test_a_throttled_array_preempts_for_one_task(limited: Centre) -> None:
    old = fill(limited)
    array = limited.submit("--array=0-15%1", "--gres=gpu:1", "--output=/dev/null", gpus=0, user="bob")
    limited.reaches(f"{array}_0", "RUNNING")
    limited.cycles(6)
    assert len(preempted(limited, old)) == 1
    assert limited.why(f"{array}_1") == "Blocked by Slurm: JobArrayTaskLimit"


@pytest.mark.parametrize(
    ("qos", "gpus", "reason"), [("onejob", 4, "QOSMaxJobsPerUserLimit"), ("twogpus", 2, "QOSGrpGRES")]
)
def test_a_limit_of_a_qos_preempts_for_what_it_lets_start(limited: Centre, qos: str, gpus: int, reason: str) -> None:
    old = fill(limited)
    jobs = [limited.submit(f"--qos={qos}", gpus=gpus, user="bob") for _ in range(4)]
    limited.reaches(jobs[0], "RUNNING")
    limited.cycles(6)
    assert len(preempted(limited, old)) == 1
    assert [limited.state(job) for job in jobs[1:]] == ["PENDING"] * 3
    assert {limited.why(job) for job in jobs[1:]} == {f"Blocked by Slurm: {reason}"}
    assert not any(limited.said(job, "start") for job in jobs[1:])


def test_a_job_that_ends_after_a_maintenance_begins_preempts_nothing(limited: Centre) -> None:
    old = fill(limited)
    words = ["ReservationName=service", "Users=root", "Nodes=ALL", "StartTime=now+4minutes", "Duration=60"]
    limited.scontrol("create", "reservation", *words, "Flags=MAINT,IGNORE_JOBS")
    try:
        late = limited.submit("--time=10", gpus=4, user="bob")
        limited.until(lambda: limited.why(late), "not seen", late)
        limited.cycles(6)
        assert not preempted(limited, old)
        assert limited.why(late).startswith("Blocked by Slurm: ReqNodeNotAvail")
        short = limited.submit("--time=2", gpus=4, user="bob")
        limited.until(lambda: limited.why(short), "not seen", short)
        limited.cycles(6)
        assert not preempted(limited, old), "a training that could not start again until the reservation ends"
    finally:
        limited.scontrol("delete", "ReservationName=service")
    limited.reaches(late, "RUNNING")


def test_hundreds_of_jobs_at_a_limit_keep_no_gpu_from_an_honest_job(limited: Centre) -> None:
    """Two of them run at most; the GPUs are free for the others all the time."""
    array = limited.submit("--array=0-249", "--qos=onegpu", "--gres=gpu:1", "--output=/dev/null", gpus=0, user="bob")
    limited.reaches(f"{array}_0", "RUNNING")
    for _ in range(5):
        honest = limited.submit(gpus=4, command="true")
        limited.reaches(honest, "COMPLETED", seconds=10)
    assert len([job for job in limited.status()["jobs"] if job["state"] == "RUNNING"]) == 1
    starts = sum(limited.status()["actions"].get(action, 0) for action in ("not started",))
    assert starts <= 2, limited.log()[-20:]
