"""Swap of jobs on a private Slurm whose task/cgroup limits memory and swap: prolog and epilog start and remove it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.remote_memory.job_swap.swap_cluster import RUN, end, inside, log, out, state, submit, swap_cluster
from tests.services.remote_memory.job_swap.swap_node import until
from tiresias.sandbox.cluster import Cluster
from tiresias.services.remote_memory.job_swap import loop_devices, removal

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.xdist_group("job swap")]


@pytest.fixture(scope="module")
def limited() -> Iterator[Cluster]:
    """A cluster with one node, limits of memory and swap, and the prolog."""
    with swap_cluster("swap") as cluster:
        yield cluster


def test_a_job_that_is_killed_without_finishes_with_it(limited: Cluster) -> None:
    assert end(limited, submit(limited, "alice", 128)) == "OUT_OF_MEMORY"
    job = submit(limited, "alice", 128, "--extra=remote-mem=160M")
    assert end(limited, job) == "COMPLETED", (limited.shared / f"{job}.out").read_text()
    assert "checked" in (limited.shared / f"{job}.out").read_text()
    until(lambda: f"job {job}: " in (limited.shared / "epilog.log").read_text(), "the epilog removes it")
    assert not list(loop_devices.own_devices())
    assert inside(limited, "ls", RUN, f"{RUN}/jobs").split() == [f"{RUN}:", "jobs", "prolog.lock", f"{RUN}/jobs:"]


def test_tsbatch_requests_it_within_the_licences(limited: Cluster) -> None:
    job = submit(limited, "alice", 128, "--remote-mem=160M", by="tsbatch")
    shown = limited.run(["scontrol", "show", "job", job]).stdout
    assert "Licenses=remote_memory:1" in shown
    assert end(limited, job) == "COMPLETED", out(limited, job)
    assert "checked" in out(limited, job)
    (line,) = [each for each in out(limited, job).splitlines() if "remote memory:" in each]
    moved = re.search(
        r"remote memory: ([\d,]+) MiB out, ([\d,]+) MiB in \(0 MiB from donors, .*, ([\d,]+) MiB from the disk\)", line
    )
    assert moved, line
    assert min(int(each) for each in moved.groups()) > 40, line
    words = ["tsbatch", "--remote-mem=2G", "--output=/dev/null", "--wrap", "true"]
    refused = limited.run(words, user="alice", check=False)
    assert refused.returncode == 1
    assert "--remote-mem needs Licenses=remote_memory:N in slurm.conf" in refused.stderr


def test_a_refused_request_is_a_line_in_the_output_of_the_job(limited: Cluster) -> None:
    refused = submit(limited, "alice", 8, "--extra=remote-mem=0", by="tsbatch")
    assert end(limited, refused) == "COMPLETED", out(limited, refused)
    assert "remote memory: this job runs without it on node" in out(limited, refused)
    assert "size above 0" in out(limited, refused)


def test_a_job_of_another_user_on_the_node_has_none_of_it(limited: Cluster) -> None:
    first = submit(limited, "alice", 128, "--extra=remote-mem=160M", writes=10**9)
    until(lambda: "filled" in out(limited, first), "the first job swaps", 60)
    second = submit(limited, "bob", 128)
    third = submit(limited, "bob", 128, "--extra=remote-mem=160M")
    assert end(limited, second) == end(limited, third) == "OUT_OF_MEMORY"
    assert f"job {third} runs without it: this node has the swap of job {first}" in log(limited, "prolog")
    assert state(limited, first) == "RUNNING"
    limited.run(["scancel", first])
    assert end(limited, first) == "CANCELLED"
    until(lambda: not list(loop_devices.own_devices()), "the epilog removes it")


def test_a_killed_swap_fails_its_job_and_the_node_goes_on(limited: Cluster) -> None:
    job = submit(limited, "alice", 128, "--extra=remote-mem=160M", writes=10**9)
    until(lambda: "filled" in out(limited, job), "the job swaps", 60)
    limited.run(["pkill", "-KILL", "-f", f"job_swap serve /shared/swap.json {job}"])
    assert end(limited, job) == "FAILED"
    until(lambda: not list(loop_devices.own_devices()), "the epilog removes it")
    assert end(limited, submit(limited, "bob", 8)) == "COMPLETED"


def test_a_wrong_request_neither_fails_the_prolog_nor_drains_the_node(limited: Cluster) -> None:
    assert end(limited, submit(limited, "alice", 8, "--extra=remote-mem=0")) == "COMPLETED"
    assert "size above 0" in log(limited, "prolog")
    assert limited.node_states() == ["idle"]


def test_a_power_failure_of_the_node_leaves_what_the_next_prolog_removes(limited: Cluster, tmp_path: Path) -> None:
    """The devices are the machine's here, and outlive the killed processes of the private cluster."""
    if not shutil.which("losetup"):
        pytest.skip("no losetup")
    job = submit(limited, "alice", 128, "--extra=remote-mem=160M", writes=10**9)
    until(lambda: "filled" in out(limited, job), "the job swaps", 60)
    limited.kill()
    assert removal.orphans(tmp_path) == {job}
    removal.remove(job, tmp_path)
    assert not list(loop_devices.own_devices())
