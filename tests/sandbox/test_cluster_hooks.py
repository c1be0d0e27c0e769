"""The hooks that run inside Slurm's daemons: the end of a job pokes the controller, and none of them delays a job."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests.sandbox.cluster_tools import state, submit, wait_state
from tiresias.sandbox.cluster import Cluster

pytestmark = pytest.mark.sandbox


LISTEN = """
import os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind('/run/tiresias/poke.sock')
os.chmod('/run/tiresias/poke.sock', 0o666)
print('ready', flush=True)
s.settimeout(120)
for _ in range(2):
    print(s.recv(100).decode()[-4:], flush=True)
"""


def test_the_end_of_each_job_pokes_the_daemon(own: Callable[..., Cluster]) -> None:
    cluster = own()
    with cluster.popen(["python3", "-c", LISTEN], user="slurm", stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == "ready\n"
        first, second = (submit(cluster, "--partition=other", "--wrap", "true") for _ in range(2))
        assert daemon.stdout.read() == "poke\npoke\n"
        assert {state(cluster, job).split()[0] for job in (first, second)} <= {"COMPLETING", "COMPLETED"}


def test_a_daemon_that_hangs_delays_no_job(own: Callable[..., Cluster]) -> None:
    """Its socket's queue is full, and no program reads. Every job still starts and ends."""
    cluster = own()
    hang = (
        "import os, socket, time; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind('/run/tiresias/poke.sock'); "
        "os.chmod('/run/tiresias/poke.sock', 0o666); print(flush=True); time.sleep(600)"
    )
    with cluster.popen(["python3", "-c", hang], user="slurm", stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        jobs = [submit(cluster, "--partition=other", "--wrap", "true") for _ in range(12)]
        for job in jobs:
            wait_state(cluster, job, "COMPLETED")
        daemon.kill()
        cluster.run(["pkill", "-9", "-f", "poke.sock"], check=False)


HOLD = (
    "function slurm_job_submit(job, parts, uid) job.priority = 0 return slurm.SUCCESS end\n"
    "function slurm_job_modify(job, record, parts, uid) return slurm.SUCCESS end\n"
)


def test_a_hold_by_job_submit_is_the_users_own_until_an_operator_holds(own: Callable[..., Cluster]) -> None:
    """Why the controller holds each new job again: what job_submit.lua holds, the owner may release."""
    cluster = own(settings={"JobSubmitPlugins": "lua"})
    (cluster.folder / "etc/job_submit.lua").write_text(HOLD)
    cluster.run(["scontrol", "reconfigure"])
    job = submit(cluster, "--partition=other", "--wrap", "true")
    assert state(cluster, job) == "PENDING JobHeldUser"
    cluster.run(["scontrol", "hold", job], user="slurm")
    assert state(cluster, job) == "PENDING JobHeldAdmin"
    assert cluster.run(["scontrol", "release", job], user="alice", check=False).returncode == 1
    cluster.run(["scontrol", "release", job], user="slurm")
    wait_state(cluster, job, "COMPLETED")


def test_poke_without_a_daemon_is_harmless(cluster: Cluster) -> None:
    assert cluster.run(["/opt/tiresias/etc/poke.sh"], user="slurm").returncode == 0
