"""On a real Slurm a node on which steps take longer is found by what jobs report, named, and avoided by the next job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tiresias.protocol.status import Status
from tiresias.slurm_plugin.views.metrics import metrics

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.long]

NODES = ("gpu01", "gpu02", "gpu03", "gpu04")
SLOW = "gpu01"  # the first node, which consolidation takes
WAVES = 6


def training(centre: Centre, *options: str) -> str:
    return centre.train("--job-name=sensitive", "--nodes=1", *options, habit="sensitive", seconds=3000)


def wave(centre: Centre) -> None:
    """Run a job on each node until all of them are timed."""
    jobs = [training(centre, f"--nodelist={node}") for node in NODES]
    ids = ",".join(f"'{job}'" for job in jobs)
    timed = f"select count(*) from job join run using (key) where id in ({ids}) and timed is not null"
    centre.wait_until(lambda: centre.query_journal(timed) == [(len(NODES),)], "steps are not timed", *jobs)
    centre.cancel(*jobs)
    for job in jobs:
        centre.wait_for_state(job, "CANCELLED")


@pytest.fixture
def slowed(centre: Centre) -> Iterator[Centre]:
    with centre.slow_node(SLOW):
        yield centre


def slowness(centre: Centre) -> dict[str, float]:
    """Return the metric of each node."""
    families = {one.name: one for one in metrics(cast(Status, centre.status()), 0.0)}
    return {one.labels["node"]: one.value for one in families["tiresias_node_slowness"].samples}


def test_a_slow_node_is_named_and_avoided(slowed: Centre) -> None:
    slowed.restart(placement={"style": "fastest_nodes"}, progress={"timed": 1.0})
    assert not slowed.status()["node_speeds"]["used"]
    for _ in range(WAVES):
        wave(slowed)
    slowed.stop()
    slowed.start(slowed.config)  # it learns at once, else within ten minutes
    slowed.wait_until(lambda: (slowed.status().get("node_speeds") or {}).get("used"), "no speeds of nodes are learned")
    assert slowed.status()["node_speeds"]["slow"] == [SLOW]
    assert slowness(slowed)[SLOW] > 2.0
    assert f"{SLOW}: steps take" in slowed.command("doctor", "--config", slowed.config, "--json").stdout
    job = training(slowed)
    slowed.wait_for_state(job, "RUNNING")
    assert slowed.show(job)["NodeList"] != SLOW, "consolidation takes the first node"
    slowed.wait_until(lambda: slowed.published(job).get("nodes"), "its nodes are not published", job)
    assert slowed.explain(job)["speed"]["slowdown"] < 1.5
    assert "on the median node" in slowed.command("explain", job).stdout
