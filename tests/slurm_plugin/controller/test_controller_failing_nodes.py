"""A node on which the runs of two users fail, on a real Slurm: it is named, and used only where no others suffice."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.ci]

BROKEN, GPUS, FAILED, FINE = "gpu02", 4, 6, 12


def nodes_of(centre: Centre, job: str) -> set[str]:
    centre.wait_until(lambda: centre.explain(job).get("runs"), "its run is not published", job)
    [run] = centre.explain(job)["runs"]
    return {node.partition(":")[0] for node in run["nodes"]}


def test_a_node_on_which_two_users_fail_is_a_last_resort(centre: Centre) -> None:
    centre.restart(placement={"failing_nodes": "avoid", "style": "first_fit"})
    fine = [centre.submit(f"--exclude={BROKEN}", command="true", user="bob") for _ in range(FINE)]
    users = ("alice", "bob")
    failed = [centre.submit(f"--nodelist={BROKEN}", command="exit 1", user=users[place % 2]) for place in range(FAILED)]
    for job in (*fine, *failed):
        centre.wait_until(lambda job=job: centre.state(job) in ("COMPLETED", "FAILED"), "it does not end", job)
    centre.stop()
    centre.start(centre.config)  # it reads the journal at its start
    centre.wait_until(
        lambda: any(line.startswith(f"node {BROKEN}: ") for line in centre.status().get("alarms", ())),
        "it is not named",
    )
    assert BROKEN in [node["name"] for node in centre.status()["nodes"] if node.get("failing")]
    blocks = [centre.submit(f"--gres=gpu:{GPUS}", gpus=0, command="sleep 1000") for _ in range(3)]
    for job in blocks:
        centre.wait_for_state(job, "RUNNING")
    assert BROKEN not in set.union(*(nodes_of(centre, job) for job in blocks))
    last = centre.submit(f"--gres=gpu:{GPUS}", gpus=0, command="sleep 1000")
    centre.wait_for_state(last, "RUNNING")
    assert nodes_of(centre, last) == {BROKEN}
