"""The stages of a separate package, with the controller on a real Slurm: they decide, and a failure makes built-in ones decide."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tiresias.sandbox import launch

pytestmark = [pytest.mark.sandbox, pytest.mark.ci]
PACKAGE = Path(__file__).parents[2] / "plugin_package"
ENVIRON = {"PYTHONPATH": f"{launch.PYTHONPATH}:/shared/plugins", "ACME_FAILS": "/shared/acme_fails"}
FAILURES = [
    ("policy", "hangs", "rank() took over 5 s"),
    ("policy", "range", "rank() returned an order in which not every row stands once"),
    ("sizing", "raises", "sizes() failed: RuntimeError: out of luck"),
    ("sizing", "hangs", "sizes() took over 5 s"),
    ("sizing", "range", "sizes() returned 1001 GPUs for job"),
    ("placement", "raises", "its call failed: RuntimeError: out of luck"),
    ("placement", "hangs", "its call took over 5 s"),
    ("placement", "range", "it returned a node twice, or a row that is no node"),
]
OPTIONS = {
    "policy": ("latest_first", {"policy": {"name": "latest_first"}}),
    "sizing": ("halves", {"policy": {"sizing": "halves"}}),
    "placement": ("last_node", {"placement": {"style": "last_node"}}),
}


@pytest.fixture
def packaged(centre: Centre) -> Iterator[Centre]:
    """The usual cluster, without a controller, and with the package in /shared/plugins."""
    centre.stop()
    centre.usual = False
    pip = ["-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-build-isolation", "--upgrade", "--target"]
    subprocess.run(
        [sys.executable, *pip, str(centre.cluster.shared / "plugins"), str(PACKAGE)], check=True, timeout=240
    )
    yield centre
    (centre.cluster.shared / "acme_fails").unlink(missing_ok=True)
    centre.clean()


def fail(centre: Centre, stage: str, failure: str) -> None:
    """Make a stage of the package fail from now on."""
    (centre.cluster.shared / "acme_fails").write_text(f"{stage} {failure}")


def wait_for_alarm(centre: Centre, name: str, message: str) -> None:
    """Wait for the alarm that names the implementation, its failure and the built-in ones."""
    centre.wait_until(
        lambda: any(name in alarm and message in alarm for alarm in centre.status()["alarms"]), f"no alarm: {message}"
    )


def configured(centre: Centre) -> str:
    policy = {"name": "latest_first", "admission": "small_only", "min_run": 600.0}
    config: str = centre.configure(policy=policy, placement={"style": "last_node"})[0]
    return config


def test_the_controller_runs_with_it_and_survives_its_failure(packaged: Centre) -> None:
    centre = packaged
    config = configured(centre)
    check = centre.cluster.run(["tiresias", "check-config", config], env=ENVIRON, check=False)
    assert (check.returncode, "latest_first" in check.stdout) == (0, True), check.stderr
    centre.start(config, env=ENVIRON)
    first = centre.submit(gpus=4, command="sleep 300")
    centre.wait_for_state(first, "RUNNING")
    centre.wait_until(
        lambda: centre.published(first).get("nodes") == [["gpu04", 4]], "it is not on the last node", first
    )
    large = centre.submit(gpus=8, command="sleep 300")
    centre.wait_until(
        lambda: centre.why(large) == "Waiting: not admitted by the admission rule small_only",
        "it is not held back",
        large,
    )
    fail(centre, "policy", "raises")
    centre.wait_until(lambda: any("latest_first" in alarm for alarm in centre.status()["alarms"]), "there is no alarm")
    centre.wait_for_state(large, "RUNNING")  # the admission rule shared holds after a failure
    more = centre.submit(gpus=8, command="sleep 300")
    centre.wait_until(
        lambda: "policy latest_first failed, las ranks" in centre.why(more), "explain does not report it", more
    )
    assert centre.state(first) == "RUNNING", "nothing is lost"


def test_the_controller_refuses_to_start_with_a_broken_one(packaged: Centre) -> None:
    centre = packaged
    fail(centre, "policy", "raises")
    command = ["tiresias", "controller", "--once", "--config", configured(centre)]
    done = centre.cluster.run(command, user=centre.cluster.spec.daemon_user, env=ENVIRON, check=False)
    assert done.returncode == 2, done.stderr
    assert (
        "policies: 'latest_first' of package acme-scheduling: rank() failed: RuntimeError: out of luck" in done.stderr
    )
    doctor = centre.cluster.run(["tiresias", "doctor"], env={**ENVIRON, "COLUMNS": "400"}, check=False)
    assert "policies: 'latest_first' of package acme-scheduling: rank() failed" in " ".join(doctor.stdout.split())


@pytest.mark.long
def test_a_sizing_decides_until_it_gives_a_job_another_number_of_gpus(packaged: Centre) -> None:
    centre = packaged
    centre.start(centre.configure(policy={"sizing": "halves"})[0], env=ENVIRON)
    one = centre.submit(gpus=1)  # half of it is one GPU
    centre.wait_for_state(one, "RUNNING")
    assert centre.status()["alarms"] == []
    four, large = centre.submit(gpus=4), centre.submit(gpus=16)
    wait_for_alarm(centre, "'halves'", "which requests 4; it cannot have that size")
    centre.wait_for_state(four, "RUNNING")
    centre.wait_until(
        lambda: "sizing halves failed, the built-in one decides" in centre.why(large), "explain is silent", large
    )
    assert [centre.show(job)["Restarts"] for job in (one, four)] == ["0", "0"]


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ("raises", "released() failed: RuntimeError: out of luck"),
        pytest.param("hangs", "released() took over 5 s", marks=pytest.mark.long),
        pytest.param("range", "released() returned not one boolean for each job of the walk", marks=pytest.mark.long),
    ],
)
def test_an_eviction_keeps_jobs_running_until_it_fails(packaged: Centre, failure: str, message: str) -> None:
    centre = packaged
    centre.start(centre.configure(policy={"eviction": "no_preemption"})[0], env=ENVIRON)
    other, victim = centre.submit(gpus=4), centre.train(gpus=12, seconds=300.0)
    centre.wait_until_preemptable(victim)
    centre.wait_until(lambda: centre.published(victim).get("queue") == 1, "it stays in the first queue", victim)
    waiting = centre.submit(gpus=8)
    centre.wait_until(lambda: centre.why(waiting), "it has no reason", waiting)
    centre.wait_for_cycles(3)
    assert [centre.state(job) for job in (other, victim, waiting)] == ["RUNNING", "RUNNING", "PENDING"]
    assert centre.status()["alarms"] == []
    fail(centre, "eviction", failure)
    wait_for_alarm(centre, "'no_preemption'", message)
    centre.wait_for_state(waiting, "RUNNING")  # the policy's own eviction preempts the job in the second queue
    centre.wait_until(
        lambda: "eviction no_preemption failed, the built-in one decides" in centre.why(victim),
        "explain is silent",
        victim,
    )
    assert (centre.state(other), centre.show(other)["Restarts"]) == ("RUNNING", "0")


@pytest.mark.long  # the failures of the other tests are of the same kind
@pytest.mark.parametrize(("stage", "failure", "message"), FAILURES)
def test_other_failures(packaged: Centre, stage: str, failure: str, message: str) -> None:
    centre, (name, options) = packaged, OPTIONS[stage]
    centre.start(centre.configure(**options)[0], env=ENVIRON)
    first = centre.submit(gpus=1)
    centre.wait_for_state(first, "RUNNING")
    assert centre.status()["alarms"] == []
    fail(centre, stage, failure)
    more, large = centre.submit(gpus=1), centre.submit(gpus=16)
    wait_for_alarm(centre, f"'{name}'", message)
    centre.wait_for_state(more, "RUNNING")
    centre.wait_until(lambda: f"{stage} {name} failed" in centre.why(large), "explain is silent", large)
    assert (centre.state(first), centre.show(first)["Restarts"]) == ("RUNNING", "0")
