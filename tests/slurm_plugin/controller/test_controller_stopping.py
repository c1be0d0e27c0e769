"""The orders pause, stop and resume, and the dead-man for a controller that does not respond."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]
HANG_AT = "/opt/tiresias/tests/slurm_plugin/controller/hang_at.py"  # the checkout, as the cluster sees it


@pytest.fixture
def own(centre: Centre) -> Iterator[Centre]:
    """A cluster whose controller the test stops and starts."""
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
    """Submit a job on all GPUs, which cannot be preempted, and one that the controller holds; return both."""
    filler = centre.submit(gpus=16, command="sleep 300")
    centre.wait_for_state(filler, "RUNNING")
    job = centre.submit(gpus=4, command="sleep 300", user="bob")
    centre.scontrol("update", f"JobId={job}", "StartTime=now")
    centre.wait_until(lambda: centre.show(job)["Priority"] == "0", "is not held", job)
    return filler, job


def starts(centre: Centre, job: str, filler: str) -> None:
    """Check that Slurm starts the job once the other is cancelled."""
    centre.cancel(filler)
    centre.wait_for_state(job, "RUNNING")


def test_a_pause_stops_preemptions_and_nothing_else(own: Centre) -> None:
    large = own.train(gpus=12, seconds=60)
    own.wait_until_preemptable(large)
    output = done(own, "pause", "--reason", "drill [red]")
    assert "are paused" in output
    fits, waits = (own.submit(gpus=4, command="sleep 300", user="bob") for _ in range(2))
    own.wait_until(
        lambda: sorted([own.state(fits), own.state(waits)]) == ["PENDING", "RUNNING"], "no start", fits, waits
    )
    assert "paused by root" in own.why(large)
    assert own.status()["paused"]["reason"] == "drill [red]"
    assert "paused already" in done(own, "pause")
    own.stop("KILL")
    own.start(own.config)
    own.wait_for_cycles(4)
    assert (own.state(large), own.show(large)["Restarts"]) == ("RUNNING", "0"), "it was preempted in spite of the pause"
    assert "resumed" in done(own, "resume")
    own.wait_until(lambda: own.show(large)["Restarts"] == "1", "is not preempted after the pause", large)
    assert done(own, "resume") == "nothing was paused or stopped\n"


def test_a_pause_without_a_controller_applies_to_the_next(own: Centre) -> None:
    own.stop()
    assert "the next one will apply it" in done(own, "pause")
    own.start(own.config)
    assert own.status()["paused"]["by"] == "root"


def test_users_may_not_order_the_controller(centre: Centre) -> None:
    for words in (["pause"], ["resume"], ["reload"], ["stop"], ["stop", "--release"]):
        found = tiresias(centre, *words, user="alice")
        assert (found.returncode, found.stdout) == (1, ""), words
        assert "only root and the controller's own user" in found.stderr
        assert any(f"may not order {words[0]}: refused" in line for line in centre.log())
    centre.wait_for_cycles()
    assert centre.status()["paused"] is None


def test_stop_ends_the_controller_and_lifts_its_holds(own: Centre) -> None:
    filler, job = held_job(own)
    assert "no job is held by Tiresias; Slurm schedules alone" in done(own, "stop")
    own.wait_until(lambda: own.exit_code is not None, "the controller did not end after it had lifted the holds")
    assert own.exit_code == 0
    assert own.show(job)["Priority"] != "0"
    assert "no controller runs" in done(own, "stop")
    own.start(own.config)
    own.wait_until(lambda: own.show(job)["Priority"] == "0", "is not held again", job)
    assert own.state(filler) == "RUNNING"


@pytest.mark.parametrize(
    "condition", [*(pytest.param(one, marks=pytest.mark.long) for one in ("well", "frozen")), "hanging"]
)
def test_the_kill_switch(own: Centre, condition: str) -> None:
    """In any state of the controller: Slurm schedules alone until `tiresias resume`."""
    filler, job = held_job(own)
    if condition == "frozen":
        own.freeze()
    elif condition == "hanging":  # its socket still accepts orders
        own.stop("KILL")
        own.start(own.config, program=("python3", HANG_AT, "1"))
    assert "Slurm schedules alone" in done(own, "stop", "--release", "--reason", "drill")
    assert own.show(job)["Priority"] != "0"
    starts(own, job, filler)
    if condition == "frozen":
        own.thaw()
        own.wait_until(lambda: own.exit_code is not None, "it continues although it was stopped")
        assert own.show(job)["Restarts"] == "0"
    elif condition == "hanging":
        own.stop("KILL")
    assert "Slurm schedules alone" in done(own, "stop", "--release")
    found = own.command("controller", "--config", own.config)
    assert found.returncode == 2
    assert "controllers are stopped by root" in found.stderr
    assert "drill" in found.stderr
    assert "stopped by root" in done(own, "resume")
    own.start(own.config)


def test_while_slurmctld_is_down_nothing_is_released_and_the_kill_switch_applies(own: Centre) -> None:
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


def test_the_deadman_does_nothing_while_a_controller_works(own: Centre) -> None:
    _, job = held_job(own)
    for _ in range(2):
        began = time.monotonic()
        assert done(own, "deadman", "--after", "20") == ""
        assert time.monotonic() - began < 20, "it waited though the lease changed"
    assert own.show(job)["Priority"] == "0"


@pytest.mark.parametrize("condition", ["killed", pytest.param("hung", marks=pytest.mark.long)])
def test_the_deadman_releases_what_a_silent_controller_holds(own: Centre, condition: str) -> None:
    filler, job = held_job(own)
    if condition == "killed":
        own.stop("KILL")
    else:
        own.freeze()
    assert "released 1 jobs" in done(own, "deadman", "--after", "4")
    assert own.show(job)["Priority"] != "0"
    assert done(own, "deadman", "--after", "4") == "", "a second dead-man has nothing to do"
    if condition == "hung":  # it continues, detects that it was superseded, and manages its jobs again
        own.thaw()
        own.wait_until(lambda: own.show(job)["Priority"] == "0", "is not held again", job)
        assert own.exit_code is None
    starts(own, job, filler)
    assert own.show(job)["Restarts"] == "0"
