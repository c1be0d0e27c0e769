"""Signals to real jobs, the same through both back ends."""

from __future__ import annotations

import time

import pytest

from tests.slurm_plugin.backends.conftest import Site
from tests.slurm_plugin.backends.waiting import eventually
from tiresias.slurm_plugin.backends.interface import JobRefused

pytestmark = pytest.mark.sandbox


def test_signal_reaches_the_batch_shell_only(site: Site) -> None:
    folder = site.cluster.shared / f"signal-{time.monotonic_ns()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    inside = f"/shared/{folder.name}"
    script = (
        f"trap 'echo shell >> {inside}/got' USR2; "
        f"(trap 'echo child >> {inside}/got' USR2; touch {inside}/ready; while true; do sleep 0.1; done) & "
        "while true; do wait; done"
    )
    job = site.running(script=script)
    eventually(lambda: (folder / "ready").exists())
    site.backend.signal(job.id, "USR2")
    eventually(lambda: (folder / "got").exists())
    time.sleep(0.5)  # for a child that should not have got it
    assert (folder / "got").read_text().split() == ["shell"]
    assert site.backend.job(job.id).state == "RUNNING"


def test_signal_does_nothing_to_a_job_that_waits(site: Site) -> None:
    job_id = site.submit("--hold")
    with pytest.raises(JobRefused, match="not running"):
        site.backend.signal(job_id, "USR2")
    assert site.backend.job(job_id).state == "PENDING"


@pytest.mark.parametrize("name", ["", "KILL -9", "USR2\n", "--full"])
def test_signal_names_are_checked(site: Site, name: str) -> None:
    job_id = site.submit("--hold")
    with pytest.raises(JobRefused, match="signal"):
        site.backend.signal(job_id, name)
