"""Slurm limits each user's calls (rl_enable), the controller's, too: it stays below the limit under any load."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci]
ARRIVALS = 500
SUBMIT = f"""
import pyslurm
pyslurm.slurm_init()
for number in range({ARRIVALS}):
    pyslurm.JobSubmitDescription(
        name=f"job{{number}}", script="#!/bin/sh\\nsleep 300\\n", working_directory="/tmp", standard_in="/dev/null",
        standard_output="/dev/null", environment={{"A": "1"}}, gres_per_node="gpu:1", memory_per_cpu=100, user_id="alice",
        group_id="alice", account="science",
    ).submit()
"""


@pytest.fixture
def limited(centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    centre = centre_of("forky", accounting=True, settings={"SlurmctldParameters": "rl_enable"})
    centre.restart()
    yield centre
    centre.stop("KILL")  # lifting its holds would take a call each, and Slurm allows two a second
    centre.clean()


def stalled(centre: Centre, user: str) -> list[str]:
    """Return the log lines on a user above the limit."""
    uid = centre.cluster.rootfs.uid(user)
    lines = (centre.cluster.log / "slurmctld.log").read_text(errors="replace").splitlines()
    return [line for line in lines if "RPC rate limit" in line and f"uid {uid} " in line]


@pytest.mark.slow
def test_many_arrivals_never_reach_slurms_own_limit(limited: Centre) -> None:
    limited.cluster.run(["sh", "-c", "for n in $(seq 30); do squeue > /dev/null; done"], user="bob")
    assert stalled(limited, "bob"), "Slurm does not limit calls: the test checks nothing"
    limited.cluster.run(["python3", "-c", SUBMIT], timeout=120)
    status = limited.wait_until(
        lambda: (found := limited.status()) and found["rpc"]["postponed"] and found, "no transition is postponed"
    )
    assert (status["rpc"]["burst"], status["rpc"]["rate"]) == (24.0, 1.6)
    assert any("wait for calls to slurmctld" in alarm for alarm in status["alarms"])
    running = ["squeue", "--noheader", "--states=RUNNING", "--format=%i"]
    limited.wait_until(
        lambda: len(limited.cluster.run(running).stdout.split()) == 16, "the GPUs stay idle", seconds=120
    )
    limited.wait_for_cycles(3)
    assert limited.status()["rpc"]["postponed"]
    assert not stalled(limited, limited.cluster.spec.daemon_user)
