"""Two partitions with their own nodes and policies on a real Slurm: each has its own order and nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]


@pytest.fixture
def two(centre: Centre) -> Iterator[Centre]:
    """Partition gpu with three nodes under las, partition other with one under fifo, which preempts no job."""
    nodes(centre, gpu="gpu[01-03]", other="gpu04")
    centre.restart(partitions=["gpu", "other"], **{"policy.partitions.other": {"name": "fifo"}})
    yield centre
    centre.stop("KILL")
    centre.clean()
    nodes(centre, gpu="ALL", other="ALL")


def nodes(centre: Centre, **of: str) -> None:
    for name, value in of.items():
        centre.scontrol("update", f"PartitionName={name}", f"Nodes={value}")


def test_each_partition_has_its_own_order(two: Centre) -> None:
    shared, own = two.train(gpus=12), two.train("--partition=other", gpus=4)
    two.wait_until_preemptable(shared)
    two.wait_until_preemptable(own)
    assert {node for node, _ in two.published(own)["nodes"]} == {"gpu04"}
    waits = two.submit("--partition=other", gpus=4, user="bob")
    small = two.submit(gpus=4, command="sleep 300", user="bob")
    two.wait_for_state(small, "RUNNING")
    assert two.show(shared)["Restarts"] == "1", "las preempts the job that has attained more service"
    two.wait_until(lambda: two.published(own).get("ran", 0) > 10, "the job in partition other does not run on", own)
    assert (two.show(own)["Restarts"], two.state(waits)) == ("0", "PENDING"), "fifo preempts none"
    assert two.published(small)["nodes"][0][0] != "gpu04"
    queues = {tuple(queue["partitions"]): queue["index"] for queue in two.status()["queues"]}
    assert queues == {("gpu",): 1, ("other",): 2}
    assert "Q3, place 2 in the order" in two.why(waits)


def test_two_orders_on_one_node_are_refused(two: Centre) -> None:
    """At a start and a reload; where an administrator changes the nodes while the controller runs, [policy] applies to both."""
    words = "partitions gpu and other share gpu04 and have two policies"
    assert words not in str(two.status()["alarms"])
    nodes(two, gpu="ALL")
    two.wait_until(lambda: words in str(two.status()["alarms"]), "there is no alarm")
    refused = two.cluster.run(["tiresias", "reload", "--config", two.config], check=False)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert words in refused.stderr
    job = two.submit("--partition=other", gpus=1, command="sleep 1")
    two.wait_for_state(job, "COMPLETED")
    two.stop()
    started = two.command("controller", "--config", two.config)
    assert (started.returncode, words in started.stderr) == (2, True), started.stderr
