"""Service by run, in Slurm's own times: never lost, never counted twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.ledger import Ledger

Make = Callable[..., SlurmJob]


def see(ledger: Ledger, time: float, *jobs: SlurmJob) -> list[str]:
    return [job.id for job in ledger.apply(SlurmSnapshot(time, jobs, ()))]


def periods(ledger: Ledger, job_id: str = "1") -> list[tuple[float, float]]:
    return [(run.start, run.end) for run in ledger.runs_of(ledger.jobs[job_id])]


def test_runs_of_a_preempted_job_add_up(ledger: Ledger, journal: Journal, pending: Make, running: Make) -> None:
    see(ledger, 1001, pending())
    see(ledger, 1010, running(1005))
    # Requeued: while COMPLETING the restart count has risen already and the times are still those of the run that ended.
    see(ledger, 1100, pending(restarts=1, completing=True, start_time=1005, end_time=1099, submit_time=1099))
    see(ledger, 1101, pending(restarts=1, submit_time=1099))
    see(ledger, 1210, running(1205, restarts=1, submit_time=1099))
    assert periods(ledger) == [(1005, 1099), (1205, 0)]
    see(ledger, 1300, running(1205, restarts=1, submit_time=1099, state="COMPLETED", end_time=1290, shares=()))
    assert ledger.jobs == {}
    assert [(run.restart, run.start, run.end) for run in journal.runs("1@1000")] == [(0, 1005, 1099), (1, 1205, 1290)]


def test_exempt_users_and_accounts_are_not_managed(journal: Journal, pending: Make) -> None:
    ledger = Ledger(journal, Scope(frozenset({"gpu"}), frozenset({"bob"}), frozenset({"vip"})))
    jobs = [
        pending(id="1"),
        pending(id="2", user="bob"),
        pending(id="3", account="vip"),
        pending(id="4", account="bob"),
    ]
    assert see(ledger, 1001, *jobs) == ["1", "4"]


def test_a_job_that_became_exempt_is_let_go(ledger: Ledger, journal: Journal, pending: Make) -> None:
    see(ledger, 1001, pending())
    later = Ledger(journal, Scope(frozenset({"gpu"}), frozenset({"alice"})))
    assert see(later, 1002, pending()) == []
    assert [row.id for row in later.strays] == ["1"]


def test_the_same_snapshot_twice_changes_nothing(ledger: Ledger, journal: Journal, running: Make) -> None:
    for _ in range(2):
        see(ledger, 1010, running(1005))
        see(ledger, 1100, running(1005, completing=True, state="COMPLETED", end_time=1099))
    assert [(run.start, run.end) for run in journal.runs("1@1000")] == [(1005, 1099)]


def test_a_restarted_controller_goes_on_with_the_same_rows(journal: Journal, ledger: Ledger, running: Make) -> None:
    see(ledger, 1010, running(1005))
    again = Ledger(journal, Scope(frozenset({"gpu"})))
    see(again, 1020, running(1005))
    assert periods(again) == [(1005, 0)]


def test_a_requeue_that_no_controller_observed_closes_the_run(ledger: Ledger, pending: Make, running: Make) -> None:
    see(ledger, 1010, running(1005))
    see(ledger, 1500, pending(restarts=1, submit_time=1099))
    assert periods(ledger) == [(1005, 1099)]


def test_runs_of_a_job_never_overlap(ledger: Ledger, pending: Make, running: Make) -> None:
    """Of a requeue by others only the moment is known at which it was seen."""
    see(ledger, 1010, running(1005))
    see(ledger, 1100, pending(restarts=1, completing=True, end_time=1100))
    see(ledger, 1101, running(1099, restarts=1))
    assert periods(ledger) == [(1005, 1099), (1099, 0)]


def test_a_job_id_that_slurm_gives_to_another_job(
    ledger: Ledger, journal: Journal, pending: Make, running: Make
) -> None:
    see(ledger, 1010, running(1005))
    see(ledger, 9000, pending(submit_time=8000))
    assert ledger.jobs["1"].key == "1@8000"
    assert periods(ledger) == []
    assert not journal.open_intents()


def test_an_id_that_a_killed_slurmctld_gives_again_after_a_second(ledger: Ledger, running: Make) -> None:
    """It had forgotten the first job, whose run is not one of the second job."""
    see(ledger, 1002, running(1000))
    see(ledger, 1003, running(1003, submit_time=1001))
    assert ledger.jobs["1"].key == "1@1001"
    assert periods(ledger) == [(1003, 0)]


def test_a_forgotten_run_of_the_same_count_keeps_its_cells(ledger: Ledger, running: Make) -> None:
    see(ledger, 1006, running(1005))
    row, again = ledger.jobs["1"], running(1020)
    ledger.note_cells(row, running(1005), "gpu01=node")
    ledger.note_cells(row, again, "gpu02=node")
    assert [run.cells for run in ledger.runs[row.key].values()] == ["gpu01=node"]


def test_a_job_that_vanished_has_ended(ledger: Ledger, running: Make) -> None:
    see(ledger, 1010, running(1005))
    assert see(ledger, 2000) == []
    assert ledger.jobs == {}


def test_a_job_that_ran_between_two_snapshots_is_accounted_once(
    ledger: Ledger, journal: Journal, running: Make
) -> None:
    gone = running(1003, state="COMPLETED", end_time=1007, shares=())
    earlier = running(900, id="2", state="COMPLETED", end_time=990, shares=())
    see(ledger, 1001.5, earlier)
    for time in (1007.2, 1007.4, 1008.1):
        assert see(ledger, time, gone, earlier) == []
    assert [(run.start, run.end) for run in journal.runs("1@1000")] == [(1003, 1007)]
    assert journal.job("2") is None, "it had ended before the first snapshot"
    assert (ledger.jobs, ledger.over) == ({}, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"gpus": 0},
        {"het_id": 5},
        {"partition": "other"},
        {"partition": "gpu,other"},
        {"reservation": "maintenance"},
        {"state": "CANCELLED"},
    ],
)
def test_unmanaged_jobs_are_left_alone(ledger: Ledger, pending: Make, changes: dict[str, object]) -> None:
    assert see(ledger, 1001, pending(**changes)) == []
    assert ledger.jobs == {}


def node_request(ledger: Ledger) -> tuple[int, int, str]:
    row = ledger.jobs["1"]
    return row.min_nodes, row.max_nodes, row.required


def test_the_owners_node_request_is_stored_under_a_pin(ledger: Ledger, pending: Make) -> None:
    see(ledger, 1001, pending(min_nodes=2, max_nodes=4, required_nodes=("gpu03",)))
    ledger.jobs["1"].pinned = True
    see(ledger, 1002, pending(min_nodes=3, max_nodes=3, required_nodes=("gpu01", "gpu02", "gpu03")))
    assert node_request(ledger) == (2, 4, "gpu03")


def test_an_owner_may_change_the_request_while_the_job_waits(ledger: Ledger, pending: Make, running: Make) -> None:
    see(ledger, 1001, pending())
    see(ledger, 1002, pending(min_nodes=2, max_nodes=4))
    assert node_request(ledger) == (2, 4, "")
    see(ledger, 1003, running(1003, min_nodes=3))
    assert node_request(ledger) == (2, 4, ""), "what it holds is not what it requested"


def test_a_job_that_moved_away_is_to_be_let_go(ledger: Ledger, pending: Make) -> None:
    see(ledger, 1001, pending(), pending(id="2"))
    assert see(ledger, 1002, pending(partition="other")) == []
    assert [row.id for row in ledger.strays] == ["1"]
    ledger.forget(ledger.strays[0], 1002)
    assert see(ledger, 1003, pending(partition="other")) == []
    assert ledger.strays == []


def test_the_kind_is_that_of_the_script_that_the_supervisor_reports(
    ledger: Ledger, journal: Journal, running: Make
) -> None:
    job = running(1005, script="a" * 16)
    see(ledger, 1010, job)
    ledger.note_script(job, "")
    assert ledger.jobs["1"].kind.startswith("a" * 16)
    ledger.note_script(job, "b" * 16)
    assert [row.kind for row in Ledger(journal, Scope(frozenset({"gpu"}))).jobs.values()] == [ledger.jobs["1"].kind]
    assert ledger.jobs["1"].kind.startswith("b" * 16)
    assert (ledger.jobs["1"].uid, ledger.jobs["1"].kind) in ledger.kinds


def test_the_past_is_what_ran_and_ended(journal: Journal, ledger: Ledger, pending: Make, running: Make) -> None:
    """Whole services in the order of the ends; of a job that was cancelled before it ran there is nothing to learn."""
    see(ledger, 1010, running(1005), running(1000, id="2", gpus=2, uid=7), pending(id="3"), running(1000, id="4"))
    see(ledger, 1100, pending(restarts=1, submit_time=1095, end_time=1095), running(1000, id="4"))
    see(ledger, 1210, running(1200, restarts=1, submit_time=1095), running(1000, id="4"))
    see(ledger, 1300, running(1000, id="4"))
    assert ledger.over == Ledger(journal, Scope(frozenset({"gpu"}))).over == 2
    past = ledger.past()
    assert past.gpus.tolist() == [2, 4]
    assert past.service.tolist() == [2 * 100.0, 4 * (90.0 + 100.0)]
    assert (past.user, past.submit.tolist()) == (("7", "1001"), [1000.0, 1000.0])


def test_of_an_empty_past_there_is_nothing_to_learn(ledger: Ledger) -> None:
    assert (ledger.over, len(ledger.past())) == (0, 0)


def test_no_moment_lies_ahead_of_a_clock_that_was_set_back(ledger: Ledger, journal: Journal, pending: Make) -> None:
    see(ledger, 4600, pending())
    row = ledger.jobs["1"]
    row.reset, row.last_preempted, row.not_before = 4500.0, 4550.0, 4660.0
    see(ledger, 4601, pending())
    assert row.not_before == 4660.0, "as long as time goes on, a back-off lasts"
    see(ledger, 1001, pending())
    (kept,) = journal.live_jobs()
    assert (kept.reset, kept.last_preempted, kept.not_before) == (1001.0, 1001.0, 1001.0)


def test_a_requeue_that_was_seen_by_a_clock_that_was_fast_ends_no_later_than_now(
    ledger: Ledger, journal: Journal, pending: Make, running: Make
) -> None:
    requeued = pending(restarts=1, submit_time=1000, completing=True, end_time=1045)
    see(ledger, 1006, pending())
    see(ledger, 1010, running(1005))
    see(ledger, 1045, requeued)
    assert [run.end for run in journal.runs("1@1000")] == [1045]
    see(ledger, 1016, requeued)
    assert [(run.start, run.end) for run in journal.runs("1@1000")] == [(1005, 1016)]


def test_a_clock_that_is_slow_for_a_while_takes_no_service_from_a_job(
    ledger: Ledger, journal: Journal, pending: Make, running: Make
) -> None:
    """An hour back: all its runs end ahead of that clock, in Slurm's own times."""
    states = [pending(), running(5005), pending(restarts=1, submit_time=5045, end_time=5045)]
    states += [running(5050, restarts=1), pending(restarts=2, submit_time=5090, end_time=5090)]
    for now, state in zip((5001, 5006, 5046, 5051, 5091), states, strict=True):
        see(ledger, now, state)
    for now in (1500, 1501, 5100):
        see(ledger, now, states[-1])
        assert [(run.start, run.end) for run in journal.runs("1@1000")] == [(5005, 5045), (5050, 5090)]


def test_a_run_within_one_second_is_a_run(ledger: Ledger, journal: Journal, pending: Make, running: Make) -> None:
    see(ledger, 1001, pending())
    see(ledger, 1006, running(1005, state="COMPLETED", end_time=1005, shares=()))
    assert [(run.start, run.end) for run in journal.runs("1@1000")] == [(1005, 1005)]


def test_a_job_that_is_cancelled_while_it_waits_has_not_run(ledger: Ledger, journal: Journal, pending: Make) -> None:
    """Slurm gives it a start and an end, both the moment of its cancellation."""
    see(ledger, 1001, pending())
    see(ledger, 1100, pending(state="CANCELLED", start_time=1099, end_time=1099))
    assert (ledger.jobs, journal.runs("1@1000"), ledger.over) == ({}, [], 0)


@pytest.mark.parametrize(("submit", "end"), [(1101, 1101), (1000, 1102)])
def test_a_job_that_is_cancelled_when_it_was_requeued_ran_until_the_requeue(
    ledger: Ledger, journal: Journal, running: Make, submit: int, end: int
) -> None:
    """Until the clean-up is over the submit time is the first one."""
    see(ledger, 1010, running(1005))
    gone = running(1102, restarts=1, submit_time=submit, state="CANCELLED", start_time=1102, end_time=1102, shares=())
    see(ledger, 5000, gone)
    assert [(run.restart, run.start, run.end) for run in journal.runs("1@1000")] == [(0, 1005, end)]


def test_a_requeue_that_slurm_forgot_never_was(ledger: Ledger, pending: Make, running: Make) -> None:
    """A slurmctld that was killed may show what it showed some seconds ago, and the job runs on."""
    see(ledger, 1010, running(1005))
    see(ledger, 1100, pending(restarts=1, submit_time=1099))
    see(ledger, 1102, running(1005))
    assert periods(ledger) == [(1005, 0)]


def test_an_end_that_slurm_forgot_makes_no_pin_the_owners_request(
    ledger: Ledger, journal: Journal, pending: Make, running: Make
) -> None:
    """slurmctld ended the job, was killed, and shows it running again with the pin to gpu01; then it requeues the job."""
    see(ledger, 1001, pending())
    row = ledger.jobs["1"]
    row.pinned, row.pin = True, "number"
    ledger.save(row)
    pin = {"required_nodes": ("gpu01",), "max_nodes": 1}
    see(ledger, 1010, running(1005, **pin))
    see(ledger, 1020, running(1005, state="COMPLETED", end_time=1019, shares=(), **pin))
    assert ledger.jobs == {}
    see(ledger, 1030, running(1005, **pin))
    see(ledger, 1040, pending(restarts=1, submit_time=1039, **pin))
    back = ledger.jobs["1"]
    assert (back.key, back.required, back.max_nodes, back.pinned) == ("1@1000", "", 0, True)
    assert periods(ledger) == [(1005, 1039)]


def test_a_later_job_of_the_same_id_is_another_one(ledger: Ledger, pending: Make, running: Make) -> None:
    see(ledger, 1010, running(1005))
    see(ledger, 1020, running(1005, state="COMPLETED", end_time=1019, shares=()))
    see(ledger, 2001, pending(submit_time=2000, required_nodes=("gpu02",)))
    assert (ledger.jobs["1"].key, ledger.jobs["1"].required) == ("1@2000", "gpu02")
    assert periods(ledger) == []


@pytest.mark.parametrize(("required", "own"), [((), True), (("gpu02",), False)])
def test_a_start_that_slurm_lost_leaves_a_hold_of_the_controller(
    ledger: Ledger, pending: Make, required: tuple[str, ...], own: bool
) -> None:
    """A job that an administrator holds after its start is still pinned; one that lost its pin, too, is as before its start."""
    see(ledger, 1001, pending())
    row = ledger.jobs["1"]
    row.held, row.pinned = False, True
    see(ledger, 1002, pending(required_nodes=required))
    assert (row.held, row.pinned) == (own, not own)
    assert ledger.free(pending(required_nodes=required)) == own


def test_a_slurmctld_that_was_started_since_shows_no_most_nodes(ledger: Ledger, pending: Make, running: Make) -> None:
    """Measured on 24.11 and 26.05: NumNodes=2-2 is shown as 2 from the start on; a limit that was removed is a large number."""
    see(ledger, 1001, pending(min_nodes=2, max_nodes=2))
    see(ledger, 1002, pending(min_nodes=2, max_nodes=0))
    assert node_request(ledger) == (2, 2, "")
    see(ledger, 1003, pending(min_nodes=2, max_nodes=4))
    assert node_request(ledger) == (2, 4, "")
    see(ledger, 1004, pending(min_nodes=2, max_nodes=1000000))
    assert node_request(ledger) == (2, 1000000, "")


@pytest.mark.parametrize(("reason", "own"), [("JobHeldAdmin", True), ("JobHeldUser", False)])
def test_a_hold_that_met_a_new_job_of_the_same_id_is_the_controllers(
    ledger: Ledger, pending: Make, reason: str, own: bool
) -> None:
    """A killed slurmctld forgot the job and gave its id to another one, between a snapshot and the hold of the first one."""
    see(ledger, 1001, pending())
    ledger.jobs["1"].held = True
    see(ledger, 1003, pending(submit_time=1002, priority=0, reason=reason))
    assert (ledger.jobs["1"].key, ledger.jobs["1"].held) == ("1@1002", own)


def test_a_new_job_of_the_same_id_that_is_not_held_has_no_hold(ledger: Ledger, pending: Make) -> None:
    see(ledger, 1001, pending())
    ledger.jobs["1"].held = True
    see(ledger, 1003, pending(submit_time=1002, priority=100, reason="None"))
    assert not ledger.jobs["1"].held


@pytest.mark.parametrize(
    ("former", "tasks", "held"),
    [
        (["1"], ["1_0", "1_1"], True),
        (["1_0", "1_1"], ["1"], True),
        (["1_0"], ["1_0", "1_1"], True),
        (["2"], ["1_0"], False),
    ],
)
def test_a_hold_that_met_an_array_of_the_same_number_is_the_controllers(
    ledger: Ledger, pending: Make, former: list[str], tasks: list[str], held: bool
) -> None:
    """Found by a campaign: slurmctld was killed and gave the number of a job to an array a second later."""
    see(ledger, 1001, *(pending(id=each) for each in former))
    for row in ledger.jobs.values():
        row.held = True
    see(ledger, 1003, *(pending(id=each, submit_time=1002, priority=0, reason="JobHeldAdmin") for each in tasks))
    assert [ledger.jobs[each].held for each in tasks] == [held] * len(tasks)


def test_a_hold_of_an_administrator_on_another_task_stays_one(ledger: Ledger, pending: Make) -> None:
    """The controller holds one task of the array; a record of another task, which was gone, comes back held."""
    see(ledger, 1001, pending(id="1_0"))
    ledger.jobs["1_0"].held = True
    held = {"priority": 0, "reason": "JobHeldAdmin"}
    see(ledger, 1003, pending(id="1_0", **held), pending(id="1_1", **held), pending(id="1_2", restarts=1, **held))
    assert not ledger.jobs["1_1"].held
    assert not ledger.jobs["1_2"].held


@pytest.mark.parametrize(("requeued", "uid", "choice"), [(1010, 1001, "restart"), (1040, 1001, ""), (1010, 1002, "")])
def test_a_job_whose_last_run_slurm_forgot_keeps_its_choice(
    ledger: Ledger, pending: Make, running: Make, requeued: int, uid: int, choice: str
) -> None:
    """It ran, was requeued, ran again and ended; then a killed slurmctld shows it as after that requeue."""
    again = {"restarts": 1, "submit_time": 1010}
    see(ledger, 1001, pending(opportunistic="restart", uid=1001))
    see(ledger, 1006, running(1005, uid=1001))
    see(ledger, 1011, pending(uid=1001, **again))
    see(ledger, 1021, running(1020, uid=1001, **again))
    see(ledger, 1031, running(1020, uid=1001, state="COMPLETED", end_time=1030, shares=(), **again))
    assert ledger.jobs == {}
    see(ledger, 1041, pending(uid=uid, restarts=1, submit_time=requeued))
    assert ledger.jobs["1"].opportunistic == choice


@pytest.mark.parametrize(("began", "key"), [(1020, "1@1000"), (900, "1@1004")])
def test_an_end_that_slurm_forgot_of_a_run_that_it_counted_twice(
    ledger: Ledger, journal: Journal, pending: Make, running: Make, began: int, key: str
) -> None:
    """slurmctld forgot the first run of a requeued job, then the end of the second one, which has the same restart count."""
    pin = {"required_nodes": ("gpu01",), "max_nodes": 1}
    again = {"restarts": 1, "submit_time": 1004}
    see(ledger, 1001, pending())
    ledger.jobs["1"].pinned = True
    ledger.save(ledger.jobs["1"])
    see(ledger, 1006, running(1005, **again, **pin))
    see(ledger, 1012, pending(**again, **pin))
    journal.begin(Intent("1@1000", "1", 1, IntentKind.START, IntentStep.CONFIRM, (("gpu01", 4),), began=began))
    see(ledger, 1022, running(1021, **again, **pin))
    see(ledger, 1031, running(1021, state="COMPLETED", end_time=1030, shares=(), **again, **pin))
    assert ledger.jobs == {}
    see(ledger, 1040, running(1021, **again, **pin))
    back = ledger.jobs["1"]
    assert (back.key, back.required) == (key, "" if key == "1@1000" else "gpu01")
