"""A pin may select a part of the node by the type of its GPUs, and goes away without a trace; which generations of Slurm can."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.slurm_plugin.backends.conftest import Site, connect
from tests.slurm_plugin.backends.test_pins import own_row, request
from tiresias.errors import TiresiasError
from tiresias.sandbox.cluster import Cluster
from tiresias.slurm_plugin.backends.interface import SlurmJob, StatedGpus
from tiresias.slurm_plugin.cluster.part_types import named_parts, types_can_change
from tiresias.slurm_plugin.state import own_tasks, part_pins, pins
from tiresias.slurm_plugin.state.journal_rows import JobRow

TYPES = ("s0", "s1")
OPTIONS: dict[str, Any] = {
    "nodes": 2, "gpu_type": "s0,s1", "sockets_per_node": 2, "hooks": False, "settings": {"KillWait": "5"},
}  # fmt: skip
REQUESTS = {
    "gres": ("--gres=gpu:2",),
    "gpus": ("--gpus=2",),
    "gpus and tasks": ("--gpus=2", "--ntasks=2", "--gpus-per-task=1"),
    "GPUs of tasks": ("--ntasks=2", "--gpus-per-task=1"),
    "GPUs and CPUs of tasks": ("--ntasks=2", "--gpus-per-task=1", "--cpus-per-task=2"),
    "GPUs of a node": ("--gpus-per-node=2", "--ntasks=2", "--cpus-per-task=2"),
    "GPUs of a socket": ("--gpus-per-socket=2", "--sockets-per-node=1"),
    "tasks of GPUs": ("--gpus=2", "--ntasks-per-gpu=1"),
}
DEVICES = "echo $CUDA_VISIBLE_DEVICES > /shared/{name}"


@pytest.fixture(
    params=[
        "pyslurm@forky",
        pytest.param("commands@forky", marks=pytest.mark.long),
        pytest.param("commands@trixie", marks=pytest.mark.ci),
    ]
)
def sockets(request: pytest.FixtureRequest, cluster_of: Callable[..., Cluster]) -> Iterator[Site]:
    """Two nodes of two sockets, with two GPUs of a type of their own each."""
    name, suite = request.param.split("@")
    cluster = cluster_of(suite, **OPTIONS)
    cluster.shared.chmod(0o1777)
    backend = connect(cluster, name)
    yield Site(cluster, backend)
    backend.close()


def pin(site: Site, row: JobRow, own: SlurmJob, parts: tuple[int, ...]) -> str:
    """As a start on gpu02 does; return what it changes besides the type."""
    typed = part_pins.with_types(own.stated_gpus, (parts,), TYPES)
    assert typed, f"{own.stated_gpus} cannot state {parts}"
    for way in pins.ways(own, 1, site.backend.job(own.id).tasks):
        row.pin = way + pins.TYPED
        site.backend.pin(own.id, pins.pin(own, way, ["gpu02"], typed))
        changed = pins.changes(own_tasks.read(row), site.backend.job(own.id), typed=True)
        if not changed:
            return ""
        site.backend.unpin(own.id, pins.unpin(row))
    return changed


def held(site: Site, file: str, *options: str) -> tuple[JobRow, SlurmJob]:
    """Submit a job that writes its devices to a file, and hold it."""
    (site.cluster.shared / file).unlink(missing_ok=True)
    job_id = site.submit("--begin=now+1hour", *options, script=DEVICES.format(name=file))
    own = replace(site.backend.job(job_id), stated_gpus=site.backend.stated_gpus(job_id))
    row = own_row(own)
    site.backend.hold(job_id)
    return row, own


@pytest.mark.sandbox
@pytest.mark.parametrize("name", REQUESTS)
def test_a_pin_selects_the_part_and_goes_away(sockets: Site, name: str) -> None:
    """Slurm alone would take the first socket of an idle node."""
    file = f"part-{sockets.backend.name}-{sockets.cluster.spec.suite}-{name.replace(' ', '-')}"
    row, own = held(sockets, file, *REQUESTS[name])
    assert pin(sockets, row, own, (0, 2)) == ""
    assert sockets.backend.job(own.id).gpu_type == "s1"
    sockets.backend.unpin(own.id, pins.unpin(row))
    assert sockets.backend.stated_gpus(own.id) == own.stated_gpus
    back = request(own_tasks.restored(row, sockets.backend.job(own.id)))
    assert replace(back, max_nodes=own.max_nodes, stated_gpus=own.stated_gpus) == request(own)
    assert pin(sockets, row, own, (0, 2)) == ""
    sockets.backend.lift(own.id)
    sockets.wait(own.id, lambda job: job.state in ("COMPLETED", "FAILED"))
    assert (sockets.cluster.shared / file).read_text().strip() == "2,3"


@pytest.mark.sandbox
def test_a_pin_selects_gpus_of_several_parts(sockets: Site) -> None:
    row, own = held(sockets, "several", "--gpus=3")
    assert pin(sockets, row, own, (1, 2)) == ""
    sockets.backend.lift(own.id)
    sockets.wait(own.id, lambda job: job.state in ("COMPLETED", "FAILED"))
    assert len((sockets.cluster.shared / "several").read_text().split(",")) == 3


@pytest.mark.sandbox
def test_nodes_show_their_types(sockets: Site) -> None:
    node = sockets.nodes()["gpu01"]
    assert node.gpus_by_type == (("s0", 2), ("s1", 2))
    assert named_parts(node, TYPES) == 2
    assert types_can_change(sockets.backend.version())


@pytest.mark.sandbox
@pytest.mark.ci
def test_slurm_22_05_changes_no_type(cluster_of: Callable[..., Cluster]) -> None:
    """Gres= refuses a type for a request without one. TresPerNode= only changes what is printed."""
    cluster = cluster_of("bookworm", **OPTIONS)
    site = Site(cluster, connect(cluster, "commands"))
    assert not types_can_change(site.backend.version())
    cluster.shared.chmod(0o1777)
    _, own = held(site, "old", "--gres=gpu:2")
    with pytest.raises(TiresiasError, match="with and without type"):
        cluster.run(["scontrol", "update", f"JobId={own.id}", "Gres=gpu:s1:2"])
    cluster.run(["scontrol", "update", f"JobId={own.id}", "TresPerNode=gpu:s1:2", "StartTime=now"])
    site.backend.lift(own.id)
    site.wait(own.id, lambda job: job.state in ("COMPLETED", "FAILED"))
    assert (cluster.shared / "old").read_text().strip() == "0,1"
    site.backend.close()


def test_what_no_request_can_state() -> None:
    """Parts that differ from node to node, several parts of each task, and types of the owner."""
    job, task = (StatedGpus("job", 4),), (StatedGpus("task", 1),)
    assert part_pins.with_types(job, ((2, 0), (2, 0)), TYPES) == (StatedGpus("job", 4, "s0"),)
    assert part_pins.with_types(job, ((2, 0), (0, 2)), TYPES) == ()
    assert part_pins.with_types(task, ((1, 2),), TYPES) == ()
    assert part_pins.with_types((StatedGpus("job", 3),), ((1, 2),), TYPES) == (
        StatedGpus("job", 1, "s0"),
        StatedGpus("job", 2, "s1"),
    )
    assert part_pins.with_types((StatedGpus("node", 2, "s0"),), ((2, 0),), TYPES) == ()
    assert part_pins.with_types((), ((2, 0),), TYPES) == ()
    assert part_pins.with_types(job, (), TYPES) == ()
    assert part_pins.with_types(job, ((0, 0, 4),), TYPES) == ()


@pytest.mark.parametrize(
    ("version", "can"), [("22.05.8", False), ("23.11.4", False), ("24.11.5", True), ("26.05.5", True), ("?", False)]
)
def test_from_which_release_on(version: str, can: bool) -> None:
    assert types_can_change(version) is can
