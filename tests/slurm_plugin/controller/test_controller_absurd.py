"""Requests that no cluster can serve, submitted by an unprivileged user: the controller and other jobs are unaffected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]
# 900 billion GPUs a socket, on 65,000 sockets of 2 million nodes: 1.17e23 GPUs, more than 64 bits hold
OVERFLOWING = ("--gpus-per-socket=900000000000", "--sockets-per-node=65000", "-N", "2000000")
# Slurm accepts most of them, depending on its version
ATTACKS = {
    "nodes": ("-N", "4000000", "--gpus-per-node=900000000000"),
    "per task": ("--ntasks=60000", "--gpus-per-task=900000000000"),
    "array": ("--array=0-999%1", "--gpus-per-socket=900000000000", "--sockets-per-node=65000", "-N", "2000000"),
    "tasks": ("--ntasks=4000000000", "--gpus=1"),
    "largest count": ("--gpus=18446744073709551613",),
    "memory": ("--gpus=1", "--mem=9000000000G"),
    "memory per CPU": ("--gpus=1", "--mem-per-cpu=9000000000G", "-c", "65000"),
    "time": ("--gpus=1", "-t", "4000000000"),
    "low nice": ("--gpus=1", "--nice=2147483645"),
    "far begin": ("--gpus=1", "--begin=2999-12-31T00:00:00"),
    "CPUs": ("--gpus=1", "-c", "65000"),
    "node list": ("--gpus=1", f"--exclude={','.join(['gpu[02-04]'] * 5000)}"),
    "no such nodes": ("--gpus=1", "--exclude=n[1-99999999999]"),
    "nodes at most": ("--gpus=1", "-N", "1-4000000000"),
}


@pytest.fixture(params=["pyslurm", pytest.param("commands", marks=pytest.mark.long)])
def attacked(request: pytest.FixtureRequest, centre: Centre) -> Iterator[Centre]:
    """A new controller with each back end."""
    centre.restart(backend=request.param)
    yield centre
    centre.stop("KILL")


def sbatch(centre: Centre, *options: str) -> str:
    """Submit a job of Bob; return its id, "" where Slurm refuses it."""
    words = ["sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", *options, "--wrap", "true"]
    return str(centre.cluster.run(words, user="bob", check=False).stdout.strip())


def check_that_another_job_completes(centre: Centre) -> None:
    honest = centre.submit(command="sleep 1", gpus=4)
    centre.wait_for_state(honest, "COMPLETED")
    assert centre.exit_code is None, centre.log()[-1]


def test_a_request_beyond_64_bits_is_set_aside(attacked: Centre) -> None:
    job = sbatch(attacked, *OVERFLOWING)
    assert job, "Slurm refused it: the test checks nothing"
    check_that_another_job_completes(attacked)
    attacked.wait_for_cycles(2)
    (alarm,) = [one for one in attacked.status()["alarms"] if f"job {job}" in one]
    assert "cannot run" in alarm
    assert f"scancel {job}" in alarm
    assert any(f"job {job}" in line and "cannot run" in line for line in attacked.log())
    assert "cannot run: requests more than 1000000000 GPUs" in attacked.explain(job)["error"]
    assert attacked.show(job)["Priority"] != "0", "it is held"
    attacked.cancel(job, user="bob")
    attacked.wait_until(lambda: not attacked.status()["alarms"], "the alarm stays")


@pytest.mark.parametrize("how", [pytest.param("release", marks=pytest.mark.long), "deadman"])
def test_holds_are_lifted_in_spite_of_absurd_requests(attacked: Centre, how: str) -> None:
    filler = attacked.submit(gpus=16)
    attacked.wait_for_state(filler, "RUNNING")
    held = attacked.submit(gpus=4, user="bob")
    attacked.scontrol("update", f"JobId={held}", "StartTime=now")
    attacked.wait_until(lambda: attacked.show(held)["Priority"] == "0", "is not held", held)
    attacked.stop("KILL")
    jobs = [
        sbatch(attacked, *OVERFLOWING),
        sbatch(attacked, "-N", "4000", "--gpus-per-node=4"),
    ]  # more nodes than the cluster has
    for job in jobs:
        attacked.scontrol(
            "update", f"JobId={job}", "StartTime=now", check=False
        )  # takes effect although Slurm reports that no node fits
    once = attacked.command("controller", "--once", "--config", attacked.config)
    assert attacked.show(jobs[1])["Priority"] == "0", "a large job is not held"
    words = ["controller", "--release"] if how == "release" else ["deadman", "--after", "0.5"]
    found = attacked.command(*words, "--config", attacked.config)
    assert (once.returncode, found.returncode) == (0, 0), (once.stderr[-500:], found.stderr)
    assert [attacked.show(job)["Priority"] != "0" for job in (held, *jobs)] == [True] * 3


def test_extreme_requests_of_all_kinds_leave_other_jobs_alone(attacked: Centre) -> None:
    jobs = {name: sbatch(attacked, *options) for name, options in ATTACKS.items()}
    assert sum(map(bool, jobs.values())) >= 6, f"Slurm refused nearly all: {jobs}"
    check_that_another_job_completes(attacked)
    attacked.restart(backend=attacked.status()["backend"])  # these jobs are new to the next controller
    check_that_another_job_completes(attacked)
    assert not [one for one in attacked.status()["alarms"] if "set aside" in one], (
        "a job made the controller's work fail"
    )
    for name, job in jobs.items():
        assert not job or attacked.state(job) in ("PENDING", "RUNNING", "COMPLETED"), name
