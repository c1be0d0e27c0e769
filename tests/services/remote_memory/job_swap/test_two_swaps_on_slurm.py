"""Two jobs of two users with a swap each on one node, through the prolog and epilog that slurmd runs.

Linux has one pool of swap devices: the pages of both jobs are on both devices. So each job checks each page that it has written,
while the other one ends in each of its ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.services.remote_memory.job_swap.swap_cluster import end, log, out, state, submit, swap_cluster
from tests.services.remote_memory.job_swap.swap_node import MEMORY, MIB, until
from tiresias.sandbox.cluster import Cluster
from tiresias.services.remote_memory.job_swap import loop_devices
from tiresias.services.remote_memory.job_swap.swap_area import swaps

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.xdist_group("job swap")]
REQUEST, NEEDED_MIB = 160, 96
USERS = ("alice", "bob")


@pytest.fixture(scope="module")
def shared_node() -> Iterator[Cluster]:
    """A cluster with one node that has the swaps of two jobs."""
    with swap_cluster("swaps", most_jobs=2) as cluster:
        yield cluster


@pytest.fixture
def jobs(shared_node: Cluster) -> Iterator[list[str]]:
    """A job of each user; both have pages in the swap and write until the file end-USER exists."""
    for user in USERS:
        (shared_node.shared / f"end-{user}").unlink(missing_ok=True)
    found = [
        submit(shared_node, user, NEEDED_MIB, f"--extra=remote-mem={REQUEST}M", until_file=f"end-{user}")
        for user in USERS
    ]
    for job in found:
        until(partial(has_filled, shared_node, job), f"job {job} swaps", 60)
    yield found
    shared_node.run(["scancel", *found], check=False)
    until(lambda: not devices(), "the epilogs remove the swaps", 60)


def has_filled(cluster: Cluster, job: str) -> bool:
    return "filled" in out(cluster, job)


def devices() -> dict[str, str]:
    """Return the device of each job."""
    return {each.job: each.path for each in loop_devices.own_devices()}


def swapped(job: str) -> int:
    """Return the bytes that the cgroup of a job has in the swap, of whatever device."""
    (folder,) = MEMORY.glob(f"**/job_{job}")
    both, memory = (int((folder / f"memory.{name}usage_in_bytes").read_text()) for name in ("memsw.", ""))
    return both - memory


def let_end(cluster: Cluster, job: str, user: str) -> None:
    """Have a job end, and check that it found each page as it had written it."""
    (cluster.shared / f"end-{user}").touch()
    assert end(cluster, job) == "COMPLETED", out(cluster, job)
    assert out(cluster, job).split() == ["filled", "checked"]


@pytest.mark.long
def test_both_swap_within_their_requests_and_find_their_pages(shared_node: Cluster, jobs: list[str]) -> None:
    assert devices().keys() == set(jobs)
    for job in jobs:
        least, most = (NEEDED_MIB - 48) * MIB * 0.9, REQUEST * MIB
        assert least < swapped(job) <= most
        assert swaps()[devices()[job]].used <= most
    for job, user in zip(jobs, USERS, strict=True):
        let_end(shared_node, job, user)
    until(lambda: not devices(), "the epilogs remove the swaps", 60)


@pytest.mark.parametrize("how", ["ends", "is cancelled", pytest.param("is killed", marks=pytest.mark.long)])
def test_the_end_of_one_leaves_the_other_as_it_is(shared_node: Cluster, jobs: list[str], how: str) -> None:
    first, second = jobs
    if how == "ends":
        let_end(shared_node, first, "alice")
    elif how == "is cancelled":
        shared_node.run(["scancel", first])
        assert end(shared_node, first) == "CANCELLED"
    else:
        shared_node.run(["pkill", "-KILL", "-u", "alice", "-f", "swapping.py"])
        assert end(shared_node, first) == "FAILED"
    until(lambda: devices().keys() == {second}, "the epilog removes the swap of the job that has ended", 60)
    assert f"job {first}: " in log(shared_node, "epilog")
    assert state(shared_node, second) == "RUNNING"
    assert swaps()[devices()[second]].used >= swapped(second) * 0.9  # all of it is there now
    let_end(shared_node, second, "bob")


def test_a_third_job_is_refused(shared_node: Cluster, jobs: list[str]) -> None:
    third = submit(shared_node, "alice", 8, f"--extra=remote-mem={REQUEST}M")
    assert end(shared_node, third) == "COMPLETED"
    assert f"job {third} runs without it: this node has the swap of job {', '.join(sorted(jobs))} (most_jobs = 2)" in (
        log(shared_node, "prolog")
    )


def test_with_the_serving_process_of_one_the_other_may_fail_and_reads_no_wrong_byte(
    shared_node: Cluster, jobs: list[str]
) -> None:
    """What `most_jobs` above 1 does not give: pages of the second job are on the device of the first, too."""
    first, second = jobs
    shared_node.run(["pkill", "-KILL", "-f", f"job_swap serve /shared/swap.json {first}"])
    assert end(shared_node, first) == "FAILED"
    (shared_node.shared / "end-bob").touch()
    ended = end(shared_node, second)
    assert "AssertionError" not in out(shared_node, first) + out(shared_node, second)
    assert ended == "FAILED" or "checked" in out(shared_node, second)
    until(lambda: not devices(), "the epilogs remove the swaps", 60)
    assert end(shared_node, submit(shared_node, "bob", 8)) == "COMPLETED"
    assert shared_node.node_states() == ["idle"]
