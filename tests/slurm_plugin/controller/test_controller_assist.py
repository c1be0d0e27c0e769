"""Mode assist on a real Slurm: Slurm orders and starts all jobs, and jobs are preempted for the one that it ranks first."""

from __future__ import annotations

import re

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tests.slurm_plugin.controller.test_controller_kill import KILL_AT

pytestmark = pytest.mark.sandbox
POLICY = {"min_run": 1.0, "preemption_cost": 0.5}
GAIN = re.compile(
    r"for job \d+, which is first in Slurm's order: expected gain \d+ s \(a wait of \d+ s, at a cost of \d+ s\)"
)


def assisting(centre: Centre, **more: object) -> None:
    """Start a controller in mode assist."""
    centre.restart(mode="assist", policy=POLICY, **more)


def was_left_alone(centre: Centre, job: str) -> bool:
    """Return whether the controller has neither held nor started nor preempted a job. It may suggest nodes to Slurm."""
    shown = centre.show(job)
    acts = [
        one for one in centre.explain(job).get("decisions", ()) if one["action"] not in ("shadow", "suggest", "running")
    ]
    return shown["Priority"] != "0" and shown["Restarts"] == "0" and not acts


def test_the_first_job_of_slurm_gets_the_gpus_of_the_oldest_run(centre: Centre) -> None:
    assisting(centre)
    assert not (centre.root / "run/tiresias/lease").exists(), "job_submit.lua would delay jobs"
    unmanaged = centre.submit("--partition=other", gpus=4)
    on_cpus = centre.submit("--ntasks=2", gpus=0)
    old = centre.train(gpus=4, seconds=8, until_preempted=True)
    centre.wait_until_preemptable(old)
    recent, plain = centre.train(gpus=4), centre.submit(gpus=4, user="bob")
    for job in (unmanaged, on_cpus, recent, plain):
        centre.wait_for_state(job, "RUNNING")
    first, second = (centre.submit(gpus=gpus, user="bob", command="sleep 3") for gpus in (4, 1))
    centre.wait_for_state(first, "RUNNING")
    assert GAIN.fullmatch(centre.reasons(old, "preempt")[0])
    assert centre.state(second) == "PENDING", "it is ranked after the first one"
    assert not [why for why in centre.reasons(recent, "preempt") if f"job {first}," in why]
    for job in (unmanaged, on_cpus, plain, first, second):
        assert was_left_alone(centre, job), "\n".join(centre.last_state([job]))
    centre.wait_until(lambda: centre.show(old)["Priority"] != "0", "it stays held", old)
    assert centre.wait_for_state(old, "COMPLETED")["Restarts"] == "1"
    assert "done at step" in centre.output(old)
    parked = centre.reasons(old, "parked")[0]
    assert parked.endswith(f"job {first} runs"), parked


def full_of(centre: Centre, *habits: str) -> list[str]:
    """Start jobs of 4 GPUs each that fill the cluster, and wait until all can be preempted."""
    jobs = [centre.train(gpus=4, habit=habit) for habit in habits]
    for job in jobs:
        centre.wait_until_preemptable(job)
    return jobs


@pytest.mark.long
def test_no_preemption_for_a_job_that_slurm_keeps_waiting(centre: Centre) -> None:
    """A job that ranks after an unmanaged one, and a job that its owner holds."""
    assisting(centre)
    jobs = full_of(centre, *["good"] * 4)
    held = centre.submit("--hold", gpus=4, user="bob")
    before = centre.submit("--partition=other", gpus=4, user="bob")
    centre.wait_until(lambda: centre.show(before)["Reason"] == "Resources", "Slurm has not tried it", before)
    after = centre.submit(gpus=4, user="bob")
    centre.wait_until(lambda: centre.published(after), "it is not seen", after)
    centre.wait_for_cycles(10)  # five seconds, after which its wait would be worth a preemption
    assert f"job {before}, which is not managed" in centre.why(after)
    assert all(was_left_alone(centre, job) for job in (*jobs, after)), "\n".join(centre.last_state(jobs))
    assert centre.show(held)["Reason"] == "JobHeldUser"
    centre.cancel(before, user="bob")
    centre.wait_for_state(after, "RUNNING")


@pytest.mark.long
def test_a_victim_that_does_not_save_spares_the_others(centre: Centre) -> None:
    """The beneficiary needs all GPUs: one job does not save within the deadline, and no job is requeued in vain for it but those
    that have parked."""
    assisting(centre, preemption={"deadline": 3.0})
    jobs = full_of(centre, "good", "good", "good", "ignores")
    first = centre.submit(gpus=16, user="bob")
    centre.wait_until(lambda: centre.reasons(jobs[3], "left running"), "it is not left running", jobs[3], first)
    centre.wait_until(lambda: all(centre.show(job)["Priority"] != "0" for job in jobs), "one stays held", *jobs)
    assert centre.show(jobs[3])["Restarts"] == "0"
    assert centre.show(first)["Priority"] != "0"


@pytest.mark.long
def test_a_killed_controller_leaves_no_job_held(centre: Centre) -> None:
    """The next controller finds the preemption in the journal, and releases the preempted jobs."""
    assisting(centre, preemption={"start_timeout": 60.0})
    jobs = full_of(centre, *["good"] * 4)
    first = centre.submit(gpus=8, user="bob", command="sleep 2")
    centre.wait_until(lambda: any(centre.show(job)["Restarts"] == "1" for job in jobs), "none is preempted", first)
    centre.usual = False
    centre.stop("KILL")
    centre.wait_for_state(first, "COMPLETED", "RUNNING")
    centre.start(centre.config)
    centre.wait_until(lambda: all(centre.show(job)["Priority"] != "0" for job in jobs), "one stays held", *jobs)
    for job in jobs:
        centre.wait_for_state(job, "RUNNING")
    assert sorted(centre.show(job)["Restarts"] for job in jobs) == ["0", "0", "1", "1"]


@pytest.mark.long
def test_a_beneficiary_that_its_owner_holds_meanwhile(centre: Centre) -> None:
    """The preempted jobs are released, and run again."""
    assisting(centre, preemption={"start_timeout": 1.0, "backoff": 600.0})
    jobs = full_of(centre, *["good"] * 3, "slow")
    first = centre.submit(gpus=16, user="bob")
    centre.wait_until(lambda: centre.reasons(jobs[0], "preempt"), "none is preempted", first)
    centre.scontrol("hold", first, user="bob")
    centre.wait_until(lambda: all(centre.show(job)["Priority"] != "0" for job in jobs), "one stays held", *jobs)
    for job in jobs:
        centre.wait_for_state(job, "RUNNING")


def pairs_on_each_node(centre: Centre) -> dict[str, list[str]]:
    """Start two jobs of 2 GPUs on each node; return them by node."""
    jobs = [centre.train(gpus=2) for _ in range(8)]
    for job in jobs:
        centre.wait_until_preemptable(job)
    found: dict[str, list[str]] = {}
    for job in jobs:
        found.setdefault(centre.show(job)["NodeList"], []).append(job)
    assert sorted(map(len, found.values())) == [2] * 4, found
    return found


CONSOLIDATED = {"placement": {"failing_nodes": "show", "style": "consolidate"}, "preemption": {"start_timeout": 60.0}}
PINNED = ("python3", KILL_AT, "suggest", "pinned", "after")


@pytest.mark.long
def test_a_job_to_be_consolidated_starts_on_the_nodes_of_its_victims(centre: Centre) -> None:
    assisting(centre, **CONSOLIDATED)
    on = pairs_on_each_node(centre)
    first = centre.submit(gpus=4, user="bob", command="sleep 2")
    node = centre.wait_for_state(first, "RUNNING", "COMPLETED")["NodeList"]
    assert all(centre.reasons(job, "preempt") for job in on[node]), "it is not on the node of its victims"
    centre.wait_until(lambda: centre.reasons(first, "running"), "its start is not confirmed", first)
    assert centre.reasons(first, "suggest") == [f"to {node}:4, where the preempted jobs release their GPUs"]
    assert centre.reasons(first, "running") == [f"on {node}:4"]
    assert any(f"job {first}: suggest: to {node}:4" in line for line in centre.log())
    assert "hold" not in str(centre.query_journal(f"select step from intent where key like '{first}@%'"))
    for job in on[node]:
        centre.wait_for_state(job, "RUNNING")


@pytest.mark.long
@pytest.mark.parametrize("then", ["another controller", "the dead-man"])
def test_a_kill_between_pin_and_start(centre: Centre, then: str) -> None:
    """The next controller goes on: Slurm starts the job there. Without one, the dead-man removes the pin, and no job stays held."""
    centre.stop()
    centre.usual = False
    centre.start(centre.configure(mode="assist", policy=POLICY, **CONSOLIDATED)[0], PINNED)
    jobs = [job for two in pairs_on_each_node(centre).values() for job in two]
    first = centre.submit("--exclude=gpu04", gpus=4, user="bob", command="sleep 2")
    centre.wait_until(lambda: centre.exit_code is not None, "it is not pinned", first)
    excluded = set(
        centre.cluster.run(["scontrol", "show", "hostnames", centre.show(first)["ExcNodeList"]]).stdout.split()
    )
    (node,) = {f"gpu0{number}" for number in range(1, 5)} - excluded
    assert centre.show(first)["Priority"] != "0", "it is held"
    assert centre.state(first) == "PENDING", "its victims are not requeued"
    if then == "the dead-man":
        assert centre.command("deadman", "--after", "0.5", "--config", centre.config).returncode == 0
        assert centre.show(first)["ExcNodeList"] == "gpu04", "its owner's request"
    else:
        centre.start(centre.config)
        assert centre.wait_for_state(first, "RUNNING", "COMPLETED")["NodeList"] == node
    centre.wait_until(lambda: all(centre.show(job)["Priority"] != "0" for job in jobs), "one stays held", *jobs)


@pytest.mark.long
def test_mode_shadow_reports_what_mode_assist_would_do(centre: Centre) -> None:
    centre.restart(mode="shadow", shadow_of="assist", policy=POLICY)
    jobs = full_of(centre, *["good"] * 4)
    first = centre.submit(gpus=4, user="bob")
    reported = f"would be preempted for job {first}"
    centre.wait_until(
        lambda: any(reported in centre.reasons(job, "shadow") for job in jobs), "nothing is reported", first
    )
    assert centre.why(first).startswith("First in Slurm's order")
    assert not centre.reasons(first, "shadow"), "it is not started by the controller in mode assist"
    assert all(was_left_alone(centre, job) for job in (*jobs, first)), "\n".join(centre.last_state(jobs))
    assert centre.state(first) == "PENDING"


@pytest.mark.long
def test_jobs_that_mode_exact_held_start_under_slurm(centre: Centre) -> None:
    full = centre.submit(gpus=16, command="sleep 8")
    centre.wait_for_state(full, "RUNNING")
    waits = centre.submit(gpus=16)
    centre.wait_until(lambda: centre.show(waits).get("Reason") == "JobHeldAdmin", "it is not held", waits)
    centre.usual = False
    config = centre.cluster.shared / centre.config.rpartition("/")[2]
    centre.stop("KILL")
    config.write_text(config.read_text().replace("mode = 'exact'", "mode = 'assist'"))
    centre.start(centre.config)
    centre.wait_until(lambda: centre.show(waits)["Priority"] != "0", "its hold remains", waits)
    centre.wait_for_state(waits, "RUNNING")
