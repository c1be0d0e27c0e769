"""A policy, an admission rule and a placement of a separate package, with the controller on a real Slurm."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tiresias.sandbox import launch

pytestmark = pytest.mark.sandbox
PACKAGE = Path(__file__).parents[2] / "plugin_package"
PATH = f"{launch.PYTHONPATH}:/shared/plugins"


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


def configured(centre: Centre) -> str:
    policy = {"name": "latest_first", "admission": "small_only", "min_run": 600.0}
    config: str = centre.configure(policy=policy, placement={"style": "last_node"})[0]
    return config


def test_the_controller_runs_with_it_and_survives_its_failure(packaged: Centre) -> None:
    centre, environ = packaged, {"PYTHONPATH": PATH, "ACME_FAILS": "/shared/acme_fails"}
    config = configured(centre)
    check = centre.cluster.run(["tiresias", "check-config", config], env=environ, check=False)
    assert (check.returncode, "latest_first" in check.stdout) == (0, True), check.stderr
    centre.start(config, env=environ)
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
    (centre.cluster.shared / "acme_fails").touch()
    centre.wait_until(lambda: any("latest_first" in alarm for alarm in centre.status()["alarms"]), "there is no alarm")
    centre.wait_for_state(large, "RUNNING")  # the admission rule shared holds after a failure
    more = centre.submit(gpus=8, command="sleep 300")
    centre.wait_until(
        lambda: "policy latest_first failed, las ranks" in centre.why(more), "explain does not report it", more
    )
    assert centre.state(first) == "RUNNING", "nothing is lost"


def test_the_controller_refuses_to_start_with_a_broken_one(packaged: Centre) -> None:
    centre, environ = packaged, {"PYTHONPATH": PATH, "ACME_FAILS": "/shared/acme_fails"}
    (centre.cluster.shared / "acme_fails").touch()
    command = ["tiresias", "controller", "--once", "--config", configured(centre)]
    done = centre.cluster.run(command, user=centre.cluster.spec.daemon_user, env=environ, check=False)
    assert done.returncode == 2, done.stderr
    assert (
        "policies: 'latest_first' of package acme-scheduling: rank() failed: RuntimeError: out of luck" in done.stderr
    )
    doctor = centre.cluster.run(["tiresias", "doctor"], env={**environ, "COLUMNS": "400"}, check=False)
    assert "policies: 'latest_first' of package acme-scheduling: rank() failed" in " ".join(doctor.stdout.split())
