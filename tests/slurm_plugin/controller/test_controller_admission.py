"""Jobs that Slurm would not start: no job is preempted for them, and no GPU is reserved for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = pytest.mark.sandbox
QOS = {
    "onejob": "MaxJobsPerUser=1",
    "twogpus": "GrpTRES=gres/gpu=2",
    "onegpu": "MaxTRESPerUser=gres/gpu=1",
}


@pytest.fixture(params=["pyslurm", pytest.param("commands", marks=pytest.mark.long)])
def limited(request: pytest.FixtureRequest, centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    """A cluster with slurmdbd and the QOS above. `make test` has one test with commands; backends/ compares both."""
    centre = centre_of("forky", accounting=True)
    for name, limit in QOS.items():
        centre.cluster.run(["sacctmgr", "-i", "add", "qos", name, "set", limit], check=False)
    centre.cluster.run(["sacctmgr", "-i", "modify", "user", "alice,bob", "set", f"qos+={','.join(QOS)}"])
    centre.restart(backend=request.param)
    yield centre
    centre.clean()
    centre.stop()


def fill(centre: Centre) -> list[str]:
    """Start training jobs on all GPUs; return them once they are in the second queue."""
    old = [centre.train(gpus=4, seconds=300) for _ in range(4)]
    for job in old:
        centre.wait_until_preemptable(job)
    centre.wait_until(lambda: all(centre.published(job).get("queue") == 1 for job in old), "they are not demoted", *old)
    return old


def preempted(centre: Centre, jobs: list[str]) -> list[str]:
    return [job for job in jobs if centre.reasons(job, "preempt")]


@pytest.mark.parametrize("limited", [pytest.param("pyslurm", marks=pytest.mark.long), "commands"], indirect=True)
def test_a_throttled_array_preempts_for_one_task(limited: Centre) -> None:
    old = fill(limited)
    array = limited.submit("--array=0-15%1", "--gres=gpu:1", "--output=/dev/null", gpus=0, user="bob")
    limited.wait_for_state(f"{array}_0", "RUNNING")
    limited.wait_for_cycles(6)
    assert len(preempted(limited, old)) == 1
    assert limited.why(f"{array}_1") == "Blocked by Slurm: JobArrayTaskLimit"


@pytest.mark.parametrize(
    ("qos", "gpus", "reason"),
    [("onejob", 4, "QOSMaxJobsPerUserLimit"), pytest.param("twogpus", 2, "QOSGrpGRES", marks=pytest.mark.long)],
)
def test_a_limit_of_a_qos_preempts_for_what_it_lets_start(limited: Centre, qos: str, gpus: int, reason: str) -> None:
    old = fill(limited)
    jobs = [limited.submit(f"--qos={qos}", gpus=gpus, user="bob") for _ in range(4)]
    limited.wait_for_state(jobs[0], "RUNNING")
    limited.wait_for_cycles(6)
    assert len(preempted(limited, old)) == 1
    assert [limited.state(job) for job in jobs[1:]] == ["PENDING"] * 3
    assert {limited.why(job) for job in jobs[1:]} == {f"Blocked by Slurm: {reason}"}
    assert not any(limited.reasons(job, "start") for job in jobs[1:])


def test_a_job_that_ends_after_a_maintenance_begins_preempts_nothing(limited: Centre) -> None:
    old = fill(limited)
    words = ["ReservationName=service", "Users=root", "Nodes=ALL", "StartTime=now+4minutes", "Duration=60"]
    limited.scontrol("create", "reservation", *words, "Flags=MAINT,IGNORE_JOBS")
    try:
        late = limited.submit("--time=10", gpus=4, user="bob")
        limited.wait_until(lambda: limited.why(late), "not seen", late)
        limited.wait_for_cycles(6)
        assert not preempted(limited, old)
        assert limited.why(late).startswith("Blocked by Slurm: ReqNodeNotAvail")
        short = limited.submit("--time=2", gpus=4, user="bob")
        limited.wait_until(lambda: limited.why(short), "not seen", short)
        limited.wait_for_cycles(6)
        assert not preempted(limited, old), "a preempted job could not start again until the reservation ends"
    finally:
        limited.scontrol("delete", "ReservationName=service")
    limited.wait_for_state(late, "RUNNING")


def test_hundreds_of_jobs_at_a_limit_keep_no_gpu_from_an_honest_job(limited: Centre) -> None:
    """One of them runs at most; the other GPUs stay free."""
    array = limited.submit("--array=0-249", "--qos=onegpu", "--gres=gpu:1", "--output=/dev/null", gpus=0, user="bob")
    limited.wait_for_state(f"{array}_0", "RUNNING")
    for _ in range(5):
        honest = limited.submit(gpus=4, command="true")
        limited.wait_for_state(honest, "COMPLETED")
    running = [job["id"] for job in limited.status()["jobs"] if job["state"] == "RUNNING"]
    # the last honest job may still be shown as running
    assert len([job for job in running if job.startswith(f"{array}_")]) == 1
    starts = sum(limited.status()["actions"].get(action, 0) for action in ("not started",))
    assert starts <= 2, limited.log()[-20:]
