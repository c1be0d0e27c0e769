"""GPUs of several kinds on a real Slurm: whole ones and MIG devices of two types on each node, and shards of all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tiresias.slurm_plugin.backends.parse import gpus, shared_gpus

pytestmark = [pytest.mark.sandbox, pytest.mark.long]
WHOLE, SLICE = "a100", "1g.10gb"


@pytest.fixture(params=["pyslurm@forky", "commands@bookworm"])
def mixed(request: pytest.FixtureRequest, centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    backend, suite = request.param.split("@")
    kinds = {"gpus_per_node": 6, "gpu_type": f"{WHOLE}:2,{SLICE}:4", "shared_gpus": "shard:4"}
    centre = centre_of(suite, nodes=2, **kinds)
    centre.restart(backend=backend)
    yield centre
    centre.clean()
    centre.stop()


def typed(centre: Centre, kind: str, count: int, command: str = "sleep 300", user: str = "alice") -> str:
    """Submit a job of that many GPUs of a type, on one node."""
    return centre.submit(f"--gres=gpu:{kind}:{count}", f"--ntasks={count}", "-N1", gpus=0, command=command, user=user)


def sharing(centre: Centre, shards: int, *options: str) -> str:
    """Submit a job that asks for shards of one GPU."""
    return centre.submit(f"--gres=shard:{shards}", *options, gpus=0, by="tsbatch", user="bob")


def held(centre: Centre, job: str) -> tuple[str, set[int]]:
    """Return the node of a running job, and the indexes of the GPUs that it holds whole or in part, from Slurm's record."""
    centre.wait_for_state(job, "RUNNING")
    found = re.search(r"Nodes=(\S+) CPU_IDs=\S+ Mem=\S+ GRES=(\S+)", centre.scontrol("show", "job", "-d", job))
    assert found
    return found[1], {*gpus(found[2])[2], *shared_gpus(found[2])}


def failed_starts(centre: Centre, *jobs: str) -> list[str]:
    return [why for job in jobs for why in centre.reasons(job, "not started")]


def test_types_are_counted_apart_and_shards_are_left_to_slurm(mixed: Centre) -> None:
    """The shards leave one whole GPU of gpu01 and both of gpu02; no start is planned on another GPU."""
    shard = sharing(mixed, 3, "-w", "gpu01")
    assert held(mixed, shard) == ("gpu01", {0})
    note = "Slurm alone schedules it: it asks for a part of a GPU (gres/shard)"
    assert (
        note
        in mixed.cluster.run(
            ["tsbatch", "--gres=shard:1", "--test-only", "--wrap", "true"], user="bob", check=False
        ).stderr
    )
    assert "it asks for a part of a GPU (gres/shard)" in mixed.explain(shard)["error"]
    pair = typed(mixed, WHOLE, 2)
    assert held(mixed, pair) == ("gpu02", {0, 1}), "gpu01 has one whole GPU left"
    slices = [typed(mixed, SLICE, 2) for _ in range(4)]
    assert sorted(held(mixed, job)[0] for job in slices) == ["gpu01", "gpu01", "gpu02", "gpu02"]
    one, waits = typed(mixed, WHOLE, 1), typed(mixed, SLICE, 1)
    assert held(mixed, one) == ("gpu01", {1})
    mixed.wait_for_cycles(3)
    assert mixed.state(waits) == "PENDING"
    everything = [held(mixed, job) for job in (shard, pair, *slices, one)]
    taken = [(node, gpu) for node, found in everything for gpu in found]
    assert len(taken) == len(set(taken)) == 12, "a GPU is held twice"
    assert not failed_starts(mixed, pair, *slices, one, waits)
    assert mixed.status()["nodes"][0]["shared_gpus"] == 1
    mixed.cancel(slices[0])
    assert held(mixed, waits)[1] <= {2, 3, 4, 5}


def test_jobs_without_a_type_and_shards_share_no_gpu(mixed: Centre) -> None:
    """Shards on each GPU of gpu01: jobs that ask for any GPU start on gpu02 only, until the shards end."""
    shards = [sharing(mixed, 4, "-w", "gpu01") for _ in range(6)]
    assert {gpu for job in shards for gpu in held(mixed, job)[1]} == set(range(6))
    jobs = [mixed.submit() for _ in range(7)]
    assert {held(mixed, job)[0] for job in jobs[:6]} == {"gpu02"}
    mixed.wait_for_cycles(3)
    assert mixed.state(jobs[6]) == "PENDING"
    more = sharing(mixed, 1)
    mixed.wait_until(lambda: mixed.show(more)["Reason"] in ("Resources", "Priority"), "Slurm has not tried it", more)
    assert not failed_starts(mixed, *jobs)
    mixed.cancel(shards[3], more, user="bob")
    assert held(mixed, jobs[6])[0] == "gpu01"
