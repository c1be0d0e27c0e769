"""Sockets on a real Slurm: two nodes of two sockets, each with two GPUs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tiresias.slurm_plugin.backends.parse import gpus

pytestmark = [pytest.mark.slow, pytest.mark.ci]


@pytest.fixture(params=["pyslurm", pytest.param("commands", marks=pytest.mark.long)])
def sockets(request: pytest.FixtureRequest, centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    centre = centre_of("forky", nodes=2, sockets_per_node=2)
    centre.restart(backend=request.param)
    yield centre
    centre.clean()
    centre.stop()


def place(centre: Centre, job: str) -> tuple[str, tuple[int, ...]]:
    """Return the job's node and the indexes of its GPUs, from Slurm's record."""
    centre.wait_for_state(job, "RUNNING")
    found = re.search(r"Nodes=(\S+) CPU_IDs=\S+ Mem=\S+ GRES=(\S+)", centre.scontrol("show", "job", "-d", job))
    assert found
    return found[1], gpus(found[2])[2]


def test_jobs_are_placed_on_nodes_with_enough_free_gpus_on_one_socket(sockets: Centre) -> None:
    """gpu01 has fewer free GPUs, but one on each socket. On gpu02 the first and the second pair get one socket each. The third
    pair is split over the sockets of gpu01, as no socket has two free GPUs."""
    singles = [place(sockets, sockets.submit("-w", "gpu01")) for _ in range(2)]
    assert sorted(index // 2 for _, (index,) in singles) == [0, 1], "Slurm takes the socket with the most idle cores"
    pairs = [place(sockets, sockets.submit(gpus=2)) for _ in range(3)]
    assert [node for node, _ in pairs] == ["gpu02", "gpu02", "gpu01"]
    assert [len({index // 2 for index in indexes}) for _, indexes in pairs] == [1, 1, 2]


def test_jobs_of_a_gpu_type_are_placed_on_a_free_socket_of_that_type(centre_of: Callable[..., Centre]) -> None:
    """The second pair of a type is not placed on the node of the first, where only the other type is free."""
    centre = centre_of("forky", nodes=2, sockets_per_node=2, gpu_type="s0,s1")
    try:
        centre.ready()
        jobs = [centre.submit(f"--gres=gpu:{kind}:2", "--ntasks=2", gpus=0) for kind in ("s0", "s0", "s1")]
        assert [place(centre, job) for job in jobs] == [("gpu01", (0, 1)), ("gpu02", (0, 1)), ("gpu01", (2, 3))]
    finally:
        centre.clean()
        centre.stop()
