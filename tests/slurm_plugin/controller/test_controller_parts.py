"""Starts select sockets on a real Slurm: nodes of two sockets with a GPU type of their own each (placement.part_types)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tiresias.errors import TiresiasError

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.ci]
KILL_AT = "/opt/tiresias/tests/slurm_plugin/controller/kill_at.py"  # the checkout, as the cluster sees it
PARTS = {"part_types": ["s0", "s1"]}
OWNERS = ("prod", "research")
DEVICES = "echo devices $CUDA_VISIBLE_DEVICES; sleep 300"
FIELDS = ("TresPerJob", "TresPerTask")


@pytest.fixture(params=["forky", pytest.param("trixie", marks=pytest.mark.long)])
def sockets(request: pytest.FixtureRequest, centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    centre = centre_of(request.param, nodes=1, sockets_per_node=2, gpu_type="s0,s1")
    yield centre
    centre.clean()
    centre.stop()


def devices(centre: Centre, job: str) -> str:
    found = centre.wait_until(lambda: re.findall(r"devices (\S+)", centre.output(job)), "it does not start", job)
    return str(found[-1])


def requested(centre: Centre, job: str) -> list[str]:
    """Return how the record states the GPUs of the job and of each task, with one notation of the number."""
    record = centre.show(job)
    return [record[name].replace("=", ":") for name in FIELDS if name in record]


def test_a_job_has_the_gpus_of_the_socket_that_its_request_names(sockets: Centre) -> None:
    """Two jobs, each on one socket; a third one that requests no type has a GPU of each, as no socket has two free."""
    sockets.restart(placement=PARTS)
    first, second = (sockets.submit(command=DEVICES) for _ in range(2))
    assert {devices(sockets, job) for job in (first, second)} == {"0", "2"}
    assert sorted(requested(sockets, job)[0] for job in (first, second)) == ["gres/gpu:s0:1", "gres/gpu:s1:1"]
    pair = sockets.submit("--gres=gpu:2", gpus=0, command=DEVICES)
    assert devices(sockets, pair) == "1,3"


def test_a_preempted_job_has_its_owners_request_again(sockets: Centre) -> None:
    sockets.restart(placement=PARTS)
    job = sockets.train(gpus=2, seconds=8, until_preempted=True)
    sockets.wait_until_preemptable(job)
    assert requested(sockets, job) in (["gres/gpu:s0:2", "gres/gpu:s0:1"], ["gres/gpu:s1:2", "gres/gpu:s1:1"])
    large = sockets.submit(gpus=4, command="sleep 5", user="bob")
    sockets.wait_for_state(large, "RUNNING")
    sockets.wait_until(
        lambda: requested(sockets, job) == ["gres/gpu:2", "gres/gpu:1"], "its request names a type still", job
    )
    assert sockets.wait_for_state(job, "COMPLETED")["Restarts"] == "1"


def test_an_elastic_job_selects_a_socket_at_another_size(sockets: Centre) -> None:
    """It requests one GPU and gets two of one socket; preempted, it has its owner's request again."""
    sockets.restart(placement=PARTS | {"trial": "anywhere"}, policy={"sizing": "minimum_first"})
    size = ("--ntasks=1", "--gpus-per-task=1")
    job = sockets.train("--elastic=1-2", *size, gpus=0, seconds=8, until_preempted=True)
    sockets.wait_until_preemptable(job)
    assert requested(sockets, job) in (["gres/gpu:s0:1"], ["gres/gpu:s1:1"])
    assert sockets.show(job)["NumTasks"] == "2"
    large = sockets.submit(gpus=4, command="sleep 5", user="bob")
    sockets.wait_for_state(large, "RUNNING")
    sockets.wait_until(lambda: requested(sockets, job) == ["gres/gpu:1"], "its request names a type still", job)
    assert sockets.show(job)["NumTasks"] == "1"
    assert sockets.wait_for_state(job, "COMPLETED")["Restarts"] == "1"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_between_the_pin_and_the_release(sockets: Centre, when: str) -> None:
    """The next controller continues the start with the parts that the journal has; after it the request is the owner's again."""
    sockets.stop()
    config, _ = sockets.configure(placement=PARTS)
    with suppress(TiresiasError, AssertionError):  # it may end before it answers
        sockets.start(config, ("python3", KILL_AT, "start", "pinned", when))
    job = sockets.submit(gpus=2, command=DEVICES)
    sockets.wait_until(lambda: sockets.exit_code in (137, -9), "the controller does not reach the pin", job)
    typed = any(":s" in text for text in requested(sockets, job))
    assert (sockets.state(job), typed) == ("PENDING", when == "after")
    sockets.start(config)
    assert devices(sockets, job) in ("0,1", "2,3")
    kinds = {re.sub(r":\d+$", "", text) for text in requested(sockets, job)}
    assert kinds in ({"gres/gpu:s0"}, {"gres/gpu:s1"})
    sockets.scontrol("requeue", job)
    sockets.wait_until(lambda: sockets.show(job).get("Restarts") == "1", "it is not requeued", job)
    sockets.cancel(job)
    sockets.usual = False


def test_virtual_clusters_own_sockets(sockets: Centre) -> None:
    """The second job of a tenant runs on the other one's socket, until that one's job gets it."""
    tables = [{"name": name, "cells": [{"level": "socket", "count": 1}], "accounts": [name]} for name in OWNERS]
    policy = {"admission": "virtual_clusters", "name": "fifo"}
    sockets.restart(virtual_clusters=tables, policy=policy, placement=PARTS | {"trial": "anywhere"})
    jobs = [sockets.train("--account=research", gpus=2) for _ in range(2)]
    for job in jobs:
        sockets.wait_until_preemptable(job)
    owner = sockets.submit("--account=prod", gpus=2, command=DEVICES, user="bob")
    found = devices(sockets, owner)
    kept = next(job for job in jobs if sockets.show(job)["Restarts"] == "0")
    assert sockets.state(kept) == "RUNNING"
    own, other = (requested(sockets, job)[0] for job in (owner, kept))
    assert (found, own, other) in (
        ("0,1", "gres/gpu:s0:2", "gres/gpu:s1:2"),
        ("2,3", "gres/gpu:s1:2", "gres/gpu:s0:2"),
    )
    query = "select cells, parts from intent where id = '{}' and kind = 'start'"
    assert [tuple(row) for row in sockets.query_journal(query.format(owner))] == [
        ("gpu01=socket", "[[2, 0]]" if found == "0,1" else "[[0, 2]]")
    ]
