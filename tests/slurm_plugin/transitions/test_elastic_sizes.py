"""Starts that give an elastic job another size than its owner requested, and its change of size while it runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.slurm_plugin.transitions.actor_harness import NO_ROWS, ActorHarness
from tiresias.scheduler.model import Plan, Resize, Start
from tiresias.slurm_plugin.backends.interface import JobRefused, SlurmUnavailable
from tiresias.slurm_plugin.state import job_reasons, own_size, own_tasks, pins
from tiresias.slurm_plugin.state.job_reasons import Rigid

HALF = Start("1", (("gpu02", 2),))


@pytest.fixture
def job(held_job: ActorHarness) -> ActorHarness:
    """Job 1 requests four tasks with a GPU each, and can use one to eight."""
    held_job.slurm.change(gpus=4, tasks=4, cpus=8, elastic="1-8")
    held_job.slurm.starts = False
    held_job.refresh()
    assert (held_job.row.elastic, held_job.row.min_gpus, held_job.row.max_gpus) == ("1-8", 1, 8)
    return held_job


def start(job: ActorHarness, action: Start = HALF) -> None:
    job.actor.begin(Plan(NO_ROWS, NO_ROWS, NO_ROWS, actions=(action,)), 1100.0)


def size(job: ActorHarness) -> tuple[int, int, int]:
    return job.job.gpus, job.job.tasks, job.job.cpus


def unpinned(job: ActorHarness) -> tuple[int, int, int]:
    """Let the start fail, and give the job its owner's request back."""
    job.poll(1131)
    assert job.intents() == []
    job.actor.unpin(job.refresh(), 1140.0)
    assert not job.row.pinned
    return size(job)


def test_a_start_changes_tasks_and_cpus_and_takes_that_back(job: ActorHarness) -> None:
    start(job)
    job.actor.advance(1100)
    assert size(job) == (2, 2, 4)
    assert job.row.pin == pins.SIZE
    assert unpinned(job) == (4, 4, 8)


@pytest.mark.parametrize(("operation", "when"), [("pin", "before"), ("pin", "after"), ("lift", "before")])
def test_a_controller_that_ends_between_pin_and_release(job: ActorHarness, operation: str, when: str) -> None:
    start(job)
    job.slurm.fail(operation, SlurmUnavailable("no answer"), when)
    with pytest.raises(SlurmUnavailable):
        job.actor.advance(1100)
    job.restart_controller()
    job.poll(1101)
    assert size(job) == (2, 2, 4)
    assert job.job.priority > 0
    assert unpinned(job) == (4, 4, 8)


@pytest.fixture(params=[3, 0])
def served_job(held_job: ActorHarness, request: pytest.FixtureRequest) -> ActorHarness:
    """Job 1 requests four workers and two servers of two CPUs each. 22.05 does not show the CPUs of a task."""
    held_job.slurm.change(gpus=4, tasks=4, cpus=12, cpus_per_task=request.param, elastic="1-8+1-4*2")
    held_job.slurm.starts = False
    held_job.refresh()
    assert own_size.servers(held_job.row, held_job.job) == 2
    return held_job


@pytest.mark.parametrize(
    ("planned", "cpus"),
    [(replace(HALF, servers=1), 6), (HALF, 6), (replace(HALF, servers=4), 12)],
)
def test_a_start_changes_workers_and_servers_and_takes_both_back(
    served_job: ActorHarness, planned: Start, cpus: int
) -> None:
    start(served_job, planned)
    served_job.actor.advance(1100)
    assert size(served_job) == (2, 2, cpus)
    assert own_size.servers(served_job.row, served_job.job) == (planned.servers or 1), (
        "in proportion where none are planned"
    )
    assert unpinned(served_job) == (4, 4, 12)
    assert own_size.servers(served_job.row, served_job.job) == 2


def test_the_servers_alone_change(served_job: ActorHarness) -> None:
    start(served_job, Start("1", (("gpu02", 4),), servers=4))
    served_job.actor.advance(1100)
    assert size(served_job) == (4, 4, 16)
    assert served_job.row.pin == pins.SIZE
    assert unpinned(served_job) == (4, 4, 12)


def test_a_refused_size_puts_both_back(served_job: ActorHarness) -> None:
    start(served_job, replace(HALF, servers=4))
    served_job.slurm.fail("pin", JobRefused("job 1: Job violates accounting/QOS policy"), "after")
    served_job.actor.advance(1100)
    assert size(served_job) == (4, 4, 12)
    assert own_size.servers(served_job.row, served_job.job) == 2
    assert own_size.sizes(served_job.row) is None


def test_a_restarted_controller_goes_on_with_the_planned_servers(served_job: ActorHarness) -> None:
    start(served_job, replace(HALF, servers=4))
    served_job.slurm.fail("lift", SlurmUnavailable("no answer"), "before")
    with pytest.raises(SlurmUnavailable):
        served_job.actor.advance(1100)
    served_job.restart_controller()
    served_job.poll(1101)
    assert size(served_job) == (2, 2, 12)
    assert own_size.servers(served_job.row, served_job.job) == 4


def test_where_slurm_does_not_change_the_size_the_job_keeps_it(job: ActorHarness) -> None:
    job.slurm.changed_by["required"] = {"tasks": 3}
    start(job)
    job.actor.advance(1100)
    assert job.intents() == []
    words = "Slurm does not accept it with 2 GPUs: it changed tasks 2 to 3; it keeps the size that its owner requested"
    assert words in job.news()[-1]
    assert (job.row.elastic, job.row.min_gpus, job.row.max_gpus) == ("1-8", 4, 4)
    assert job_reasons.text(job.row.rigid) == "Slurm does not accept it with 2 GPUs: it changed tasks 2 to 3"
    assert own_size.step(job.row, job.job) == 0
    assert job.job.priority == 0, "it waits for a start at its own size"


def test_a_refused_size_is_given_back_and_not_tried_again(job: ActorHarness) -> None:
    start(job)
    job.slurm.fail("pin", JobRefused("job 1: Job violates accounting/QOS policy"), "after")
    job.actor.advance(1100)
    assert job.intents() == []
    assert size(job) == (4, 4, 8)
    words = "Slurm does not accept it with 2 GPUs: Job violates accounting/QOS policy"
    assert job_reasons.text(job.row.rigid) == words
    assert own_size.sizes(job.row) is None
    [seen] = job.refresh()
    assert (seen.gpus, job.row.min_gpus, job.row.max_gpus) == (4, 4, 4)


def test_a_refusal_that_concerns_nodes_leaves_the_job_elastic(job: ActorHarness) -> None:
    start(job)
    job.slurm.fail("pin", JobRefused("job 1: Requested node configuration is not available"))
    job.actor.advance(1100)
    assert job.intents() == []
    assert job.row.rigid == ""
    job.actor.unpin(job.refresh(), 1140.0)
    assert size(job) == (4, 4, 8)


def test_a_size_above_a_limit_of_slurm_is_given_back(job: ActorHarness) -> None:
    start(job)
    job.actor.advance(1100)
    job.slurm.change(reason="QOSMaxGRESPerJob")
    job.poll(1131)
    job.actor.unpin(job.refresh(), 1140.0)
    assert size(job) == (4, 4, 8)
    assert job_reasons.text(job.row.rigid) == "Slurm does not accept it with 2 GPUs: QOSMaxGRESPerJob"


def test_a_job_that_ignores_its_size_goes_back_to_its_own(running_job: ActorHarness) -> None:
    running_job.slurm.change(gpus=4, tasks=4, cpus=8, elastic="1-8")
    running_job.refresh()
    running_job.ledger.requests.note_elastic(running_job.row, "1-8", running_job.job)
    running_job.row.asked = own_tasks.write(replace(running_job.job, gpus=2, tasks=2, cpus=4))
    running_job.ledger.requests.fix_size(running_job.row, job_reasons.stored(Rigid.OTHER_RANKS, 2, 4, 4))
    running_job.actor.restore_sizes(running_job.refresh(), 1100.0)
    running_job.poll(1100)
    assert running_job.job.state == "PENDING"
    assert "signal" not in running_job.slurm.calls, "it made no step"
    assert "resize: back to the size that it requests: its program ignores" in running_job.news()[0]


def test_its_owner_gives_a_waiting_job_another_size(job: ActorHarness) -> None:
    job.slurm.change(tasks=6, gpus=6, cpus=12)
    [seen] = job.refresh()
    assert (seen.gpus, seen.tasks, seen.cpus) == (6, 6, 12)
    start(job, Start("1", (("gpu02", 3),)))
    job.actor.advance(1100)
    assert unpinned(job) == (6, 6, 12)


def test_a_record_with_a_forgotten_pin_is_not_read_as_a_request(job: ActorHarness) -> None:
    start(job)
    job.actor.advance(1100)
    shown = job.job
    assert unpinned(job) == (4, 4, 8)
    job.slurm.change(tasks=shown.tasks, gpus=shown.gpus, cpus=shown.cpus, required_nodes=shown.required_nodes)
    [seen] = job.refresh()
    assert (seen.gpus, seen.tasks) == (4, 4)
    assert [one.id for one in job.ledger.resurfaced] == ["1"]


def test_the_requested_size_is_pinned_as_that_of_any_job(job: ActorHarness) -> None:
    start(job, Start("1", (("gpu02", 4),)))
    job.actor.advance(1100)
    assert job.row.pin == pins.NUMBER
    assert size(job) == (4, 4, 8)


def test_a_record_with_the_nodes_of_the_last_run_is_not_the_owners_request(job: ActorHarness) -> None:
    job.slurm.change(gpus=1, min_nodes=3)  # as Slurm 22.05 shows a requeued job
    [seen] = job.refresh()
    assert (seen.gpus, seen.min_nodes) == (4, job.row.min_nodes)


@pytest.mark.parametrize(
    "request_",
    [{"array_id": 1}, {"requeue": False}, {"exclusive": True}, {"tasks_per_gpu": 1}, {"tasks_per_node": 3}],
)
def test_requests_that_cannot_change_their_size(held_job: ActorHarness, request_: dict[str, int]) -> None:
    held_job.slurm.change("1", gpus=4, **{"tasks": 4, "elastic": "1-8", **request_})
    held_job.refresh()
    assert held_job.row.elastic == "fixed"


def test_a_running_job_saves_and_is_requeued(running_job: ActorHarness) -> None:
    none = np.zeros(0, np.int64)
    running_job.actor.begin(Plan(none, none, none, actions=(Resize("1", 8),)), 1100.0)
    running_job.poll(1100)
    assert [(one.kind, one.step) for one in running_job.intents()] == [("resize", "wait")]
    running_job.report_parked()
    running_job.poll(1101)
    assert running_job.intents() == []
    assert (running_job.job.state, running_job.job.priority) == ("PENDING", 0)
    assert running_job.row.preemptions == 1


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_running_job_that_goes_on_with_fewer_gpus_hands_the_others_over(
    running_job: ActorHarness, is_killed: bool
) -> None:
    none, nodes = np.zeros(0, np.int64), (("gpu02", 2),)
    changes = Plan(none, none, none, actions=(Resize("1", 2, beneficiary="2"),), reserved=(Start("2", nodes),))
    running_job.slurm.starts = False
    running_job.actor.begin(changes, 1100.0)
    assert running_job.news() == ["resize: for job 2"]
    steps = []
    for second in range(1100, 1110):
        if is_killed:
            running_job.restart_controller()
        running_job.poll(second)
        steps += [(one.kind, one.step, one.beneficiary, one.nodes) for one in running_job.intents()]
        if steps[-1][1] == "wait":
            running_job.report_parked()
    assert set(steps) == {("resize", "wait", "2", nodes)}
    [start] = running_job.journal.open_intents()
    assert (start.id, start.kind, start.nodes) == ("2", "start", nodes), "it is released before the requeue"
    assert (running_job.job.state, running_job.row.preemptions) == ("PENDING", 1)
    assert running_job.journal.beneficiaries(running_job.row.key) == {0: "2"}


def test_the_report_of_a_run_counts_more_than_a_note(job: ActorHarness) -> None:
    job.ledger.requests.note_elastic(job.row, "2-4:2", job.job)
    assert (job.row.elastic, job.row.min_gpus, job.row.max_gpus) == ("2-4:2", 2, 4)
    job.refresh()
    assert job.row.elastic == "2-4:2", "the note is not read again"
    job.ledger.requests.note_elastic(job.row, "fixed", job.job)
    assert own_size.sizes(job.row) is None
