"""Pausing, stopping and the dead-man: what administrators order, and what happens when nobody can be ordered any more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
Centre = Any  # conftest.py
HANG_AT = "/opt/tiresias/tests/slurm_plugin/controller/hang_at.py"  # the checkout, as the cluster sees it


@pytest.fixture
def own(centre: Centre) -> Iterator[Centre]:
    """A centre whose controller is stopped and started by the test."""
    centre.usual = False
    yield centre
    centre.stop("KILL")


def tiresias(centre: Centre, *words: str, user: str = "root") -> Any:
    return centre.cluster.run(["tiresias", *words, "--config", centre.config], user=user, check=False)


def done(centre: Centre, *words: str) -> str:
    found = tiresias(centre, *words)
    assert found.returncode == 0, found.stderr
    return str(found.stdout)


def held_job(centre: Centre) -> tuple[str, str]:
    """All GPUs are taken by the first job, which cannot be preempted; the second is held for its turn, as job_submit.lua's begin
    time is over."""
    filler = centre.submit(gpus=16, command="sleep 300")
    centre.reaches(filler, "RUNNING")
    job = centre.submit(gpus=4, command="sleep 300", user="bob")
    centre.scontrol("update", f"JobId={job}", "StartTime=now")
    centre.until(lambda: centre.show(job)["Priority"] == "0", "is not held", job)
    return filler, job


def starts(centre: Centre, job: str, filler: str) -> None:
    """Slurm itself starts it once there is room."""
    centre.cancel(filler)
    centre.reaches(job, "RUNNING")


def test_a_pause_stops_preemptions_and_nothing_else(own: Centre) -> None:
    whale = own.train(gpus=12, seconds=60)
    own.trains(whale)
    output = done(own, "pause", "--reason", "drill [red]")
    assert "are paused" in output
    fits, waits = (own.submit(gpus=4, command="sleep 300", user="bob") for _ in range(2))
    own.until(lambda: sorted([own.state(fits), own.state(waits)]) == ["PENDING", "RUNNING"], "no start", fits, waits)
    assert "paused by root" in own.why(whale)
    assert own.status()["paused"]["reason"] == "drill [red]"
    assert "paused already" in done(own, "pause")
    own.stop("KILL")
    own.start(own.config)
    own.cycles(4)
    assert (own.state(whale), own.show(whale)["Restarts"]) == ("RUNNING", "0"), "it was preempted in spite of the pause"
    assert "resumed" in done(own, "resume")
    own.until(lambda: own.show(whale)["Restarts"] == "1", "is not preempted after the pause", whale)
    assert done(own, "resume") == "nothing was paused or stopped\n"


def test_a_pause_without_a_controller_is_heeded_by_the_next(own: Centre) -> None:
    own.stop()
    assert "the next one will apply it" in done(own, "pause")
    own.start(own.config)
    assert own.status()["paused"]["by"] == "root"


def test_users_may_not(centre: Centre) -> None:
    for words in (["pause"], ["resume"], ["reload"], ["stop"], ["stop", "--release"]):
        found = tiresias(centre, *words, user="alice")
        assert (found.returncode, found.stdout) == (1, ""), words
        assert "only root and the controller's own user" in found.stderr
        assert any(f"may not order {words[0]}: refused" in line for line in centre.log())
    centre.cycles()
    assert centre.status()["paused"] is None


def test_stop_ends_it_and_lifts_its_holds(own: Centre) -> None:
    filler, job = held_job(own)
    assert "no job is held by Tiresias; Slurm schedules alone" in done(own, "stop")
    own.until(lambda: own.exit_code is not None, "the controller did not end after it had lifted the holds")
    assert own.exit_code == 0
    assert own.show(job)["Priority"] != "0"
    assert "no controller runs" in done(own, "stop")
    own.start(own.config)
    own.until(lambda: own.show(job)["Priority"] == "0", "is not held again", job)
    assert own.state(filler) == "RUNNING"


@pytest.mark.parametrize("life", ["well", "frozen", "hanging"])
def test_the_kill_switch(own: Centre, life: str) -> None:
    """Whatever the controller does: afterwards Slurm is alone, and stays so until somebody says otherwise."""
    filler, job = held_job(own)
    if life == "frozen":
        own.freeze()
    elif life == "hanging":  # its socket still takes orders
        own.stop("KILL")
        own.start(own.config, program=("python3", HANG_AT, "1"))
    assert "Slurm schedules alone" in done(own, "stop", "--release", "--reason", "drill")
    assert own.show(job)["Priority"] != "0"
    starts(own, job, filler)
    if life == "frozen":
        own.thaw()
        own.until(lambda: own.exit_code is not None, "it goes on though it was stopped")
        assert own.show(job)["Restarts"] == "0"
    elif life == "hanging":
        own.stop("KILL")
    assert "Slurm schedules alone" in done(own, "stop", "--release")
    found = own.command("controller", "--config", own.config)
    assert found.returncode == 2
    assert "controllers are stopped by root" in found.stderr
    assert "drill" in found.stderr
    assert "stopped by root" in done(own, "resume")
    own.start(own.config)


def test_while_slurmctld_is_away_nothing_is_released_and_the_kill_switch_holds(own: Centre) -> None:
    _, job = held_job(own)
    own.stop("KILL")
    own.cluster.kill_slurmctld("TERM")
    try:
        for words in (["deadman", "--after", "1"], ["stop", "--release"]):
            found = tiresias(own, *words)
            assert (found.returncode, found.stdout, found.stderr.count("\n")) == (1, "", 1), found.stderr
            assert "slurmctld" in found.stderr
    finally:
        own.cluster.start_slurmctld()
    assert own.show(job)["Priority"] == "0"
    assert own.command("controller", "--config", own.config).returncode == 2
    assert "released 1 jobs" in done(own, "deadman", "--after", "1")
    assert own.show(job)["Priority"] != "0"


def test_the_deadman_leaves_a_controller_alone_that_is_well(own: Centre) -> None:
    _, job = held_job(own)
    for _ in range(2):
        began = time.monotonic()
        assert done(own, "deadman", "--after", "20") == ""
        assert time.monotonic() - began < 15, "it waited though the lease changed"
    assert own.show(job)["Priority"] == "0"


@pytest.mark.parametrize("life", ["killed", "hung"])
def test_the_deadman_releases_what_a_silent_controller_holds(own: Centre, life: str) -> None:
    filler, job = held_job(own)
    if life == "killed":
        own.stop("KILL")
    else:
        own.freeze()
    assert "released 1 jobs" in done(own, "deadman", "--after", "4")
    assert own.show(job)["Priority"] != "0"
    assert done(own, "deadman", "--after", "4") == "", "there is nothing left to do"
    if life == "hung":  # it wakes up, finds itself superseded, and takes its jobs up again
        own.thaw()
        own.until(lambda: own.show(job)["Priority"] == "0", "is not held again", job)
        assert own.exit_code is None
    starts(own, job, filler)
    assert own.show(job)["Restarts"] == "0"
