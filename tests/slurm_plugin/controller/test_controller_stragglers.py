"""A job with a rank that is slowed down, on a real Slurm: the node is shown, and replaced where that is configured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.slurm_plugin.controller.centre import TRAIN, Centre
from tests.slurm_plugin.controller.test_controller_kill import KILL_AT

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]

SLOW = "gpu02"
KILLS = [
    ("replace", "begin", "before"),
    ("replace", "begin", "after"),
    ("replace", "wait", "after"),
    ("replace", "drain", "before"),
    ("replace", "finish", "after"),
    ("start", "begin", "after"),
    ("start", "pinned", "before"),
]


@pytest.fixture
def slowed(centre: Centre) -> Iterator[Centre]:
    with centre.slow_node(SLOW):
        yield centre


def start(centre: Centre, stragglers: str) -> str:
    """Start a job with a rank on each of three nodes, and wait until the slow one is found."""
    policy = {"preemption_cost": 1.0, "cooldown": 0.0, "min_run": 0.0}
    placement = {"stragglers": stragglers, "trial": "anywhere", "style": "first_fit"}
    centre.restart(policy=policy, placement=placement, progress={"timed": 0.25})
    request = ("--nodes=3", "--ntasks-per-node=1", "--gpus-per-node=4", "--nodelist=gpu01")
    return centre.submit(*request, gpus=0, by="tsbatch", command=f"exec srun python3 {TRAIN} 900 straggles")


def nodes(centre: Centre, job: str) -> list[set[str]]:
    """Return the nodes of each run."""
    return [{node.partition(":")[0] for node in run["nodes"]} for run in centre.explain(job).get("runs", ())]


def test_a_slow_node_is_shown_and_kept_by_default(slowed: Centre) -> None:
    job = start(slowed, "keep")
    slowed.wait_until(lambda: slowed.published(job).get("slow_nodes"), "no slow node is found", job, seconds=90)
    [[node, ratio]] = slowed.published(job)["slow_nodes"]
    assert node == SLOW
    assert ratio > 4.0
    assert len(nodes(slowed, job)) == 1
    page = slowed.cluster.run(
        ["tiresias", "explain", job, "--socket", "/run/tiresias/control.sock"], user="alice"
    ).stdout
    assert f"{SLOW} (" in page


def test_a_slow_node_is_replaced_where_that_is_configured(slowed: Centre) -> None:
    job = start(slowed, "replace")
    slowed.wait_until(lambda: len(nodes(slowed, job)) == 2, "it does not start again", job, seconds=120)
    first, second = nodes(slowed, job)
    assert SLOW in first
    assert second == {"gpu01", "gpu03", "gpu04"}
    reasons = slowed.reasons(job, "replace")
    assert reasons[0].startswith(f"so that it starts again without {SLOW} (")
    assert slowed.explain(job)["job"]["preemptions"] <= 1


def run_until_killed(centre: Centre, point: tuple[str, str, str]) -> None:
    """Run the controller on the same state until it kills itself at that step (kill_at.py)."""
    config = centre.config
    centre.stop("KILL")
    with suppress(AssertionError):  # it may end before it answers
        centre.start(config, program=("python3", KILL_AT, *point))
    centre.wait_until(lambda: centre.exit_code is not None, f"the controller did not reach {point}", seconds=120)
    assert centre.exit_code in (137, -9), "it ended, but not by its own SIGKILL"


@pytest.mark.long
def test_a_slow_node_is_avoided_whenever_the_controller_is_killed(slowed: Centre) -> None:
    job = start(slowed, "replace")
    slowed.wait_for_state(job, "RUNNING")
    for point in KILLS:
        run_until_killed(slowed, point)
    slowed.start(slowed.config)
    slowed.wait_until(lambda: len(nodes(slowed, job)) == 2, "it does not start again", job, seconds=120)
    assert nodes(slowed, job)[1] == {"gpu01", "gpu03", "gpu04"}
    slowed.scontrol("requeue", job)  # by an administrator: the third run avoids the node, too
    slowed.wait_until(lambda: len(nodes(slowed, job)) == 3, "it does not start a third time", job, seconds=120)
    assert nodes(slowed, job)[2] == {"gpu01", "gpu03", "gpu04"}
    [(kept,)] = slowed.query_journal(f"select slow_nodes from job where id = '{job}'")
    assert kept == SLOW
