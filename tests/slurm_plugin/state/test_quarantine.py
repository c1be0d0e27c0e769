"""One job's error sets that job aside, and no other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tiresias.protocol.control import JobReport
from tiresias.slurm_plugin.act import Actor
from tiresias.slurm_plugin.backends.interface import JobRefused, SlurmJob, SlurmSnapshot, SlurmUnavailable
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import PreemptionConfig
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.ledger import Ledger
from tiresias.slurm_plugin.state.quarantine import RETRY_S, SHOWN_ALARMS, SIFT_S, Quarantine

Make = Callable[..., SlurmJob]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def quarantine(clock: Clock) -> Quarantine:
    return Quarantine(clock)


def snapshot(*jobs: SlurmJob, **more: Any) -> SlurmSnapshot:
    return SlurmSnapshot(1000.0, jobs, (), **more)


def fails(quarantine: Quarantine, job_id: str) -> None:
    with quarantine.guard("its hold", job_id):
        raise ZeroDivisionError("division by zero")


def test_an_error_sets_the_job_aside_until_its_record_changes(quarantine: Quarantine, pending: Make) -> None:
    first, second = pending(id="1"), pending(id="2")
    quarantine.see(snapshot(first, second))
    fails(quarantine, "1")
    assert quarantine.sound([first, second]) == [second]
    quarantine.see(snapshot(first, second))
    assert quarantine.holds("1")
    quarantine.see(snapshot(pending(id="1", priority=7), second))
    assert not quarantine.holds("1")
    assert quarantine.alarms() == []


def test_it_is_tried_again_after_a_while(quarantine: Quarantine, clock: Clock, pending: Make) -> None:
    quarantine.see(snapshot(pending()))
    fails(quarantine, "1")
    clock.now += RETRY_S
    quarantine.see(snapshot(pending()))
    assert not quarantine.holds("1")


def test_the_alarm_names_the_job_the_error_and_what_to_do(
    quarantine: Quarantine, pending: Make, caplog: pytest.LogCaptureFixture
) -> None:
    quarantine.see(snapshot(pending()))
    fails(quarantine, "1")
    (alarm,) = quarantine.alarms()
    assert alarm.startswith("job 1: set aside: its hold failed with ZeroDivisionError: division by zero")
    assert "scancel 1" in alarm
    assert "job 1: set aside: its hold failed" in caplog.text
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("error", [SlurmUnavailable("no answer")])
def test_errors_that_concern_all_jobs_are_not_caught(quarantine: Quarantine, error: Exception) -> None:
    with pytest.raises(type(error)), quarantine.guard("its hold", "1"):
        raise error
    assert not quarantine.holds("1")


def test_a_refusal_that_nothing_else_handles_sets_the_job_aside(quarantine: Quarantine) -> None:
    with quarantine.guard("its hold", "1"):
        raise JobRefused("job 1: access denied")
    assert quarantine.holds("1")


@pytest.mark.parametrize("bad", [set(), {"0"}, {"99"}, {"3", "4", "57"}, {str(number) for number in range(100)}])
def test_sifting_finds_exactly_the_jobs_that_fail(quarantine: Quarantine, pending: Make, bad: set[str]) -> None:
    jobs = [pending(id=str(number)) for number in range(100)]
    calls = 0

    def compute(some: Sequence[SlurmJob]) -> list[str]:
        nonlocal calls
        calls += 1
        if bad & {job.id for job in some}:
            raise OverflowError
        return [job.id for job in some]

    assert quarantine.sift("scheduling it", jobs, compute) == [job.id for job in jobs if job.id not in bad]
    assert {job.id for job in jobs if quarantine.holds(job.id)} == bad
    assert calls <= 3 + 15 * len(bad)


def test_sifting_gives_up_where_no_job_explains_the_error(quarantine: Quarantine, pending: Make) -> None:
    def compute(some: Sequence[SlurmJob]) -> None:
        raise OverflowError

    with pytest.raises(OverflowError):
        quarantine.sift("scheduling it", [pending()], compute)
    assert not quarantine.holds("1")


def test_sifting_that_takes_long_goes_on_in_the_next_cycle(quarantine: Quarantine, clock: Clock, pending: Make) -> None:
    jobs, bad = tuple(pending(id=str(number)) for number in range(64)), {str(number) for number in range(0, 64, 3)}
    longest = 0.0

    def compute(some: Sequence[SlurmJob]) -> int:
        clock.now += SIFT_S / 40
        if bad & {job.id for job in some}:
            raise OverflowError
        return len(some)

    for _ in range(20):
        quarantine.see(snapshot(*jobs))
        began = clock.now
        quarantine.sift("scheduling it", quarantine.sound(jobs), compute)
        longest = max(longest, clock.now - began)
    assert {job.id for job in jobs if quarantine.holds(job.id)} == bad
    assert longest < 2 * SIFT_S


def test_what_records_show_is_an_alarm_and_one_line_in_the_log(
    quarantine: Quarantine, pending: Make, caplog: pytest.LogCaptureFixture
) -> None:
    huge = [
        pending(id=f"7_{task}", array_id=7, unmanaged="cannot run: requests more than 9 GPUs") for task in range(50)
    ]
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        quarantine.see(snapshot(*huge, pending(), unreadable=("a job's record has no job id: KeyError: 'job_id'",)))
    assert len(caplog.records) == 2
    assert quarantine.alarms() == [
        "a job's record has no job id: KeyError: 'job_id'",
        "job 7: cannot run: requests more than 9 GPUs; Tiresias leaves it as it is; to end it: scancel 7",
    ]
    quarantine.see(snapshot(pending()))
    assert quarantine.alarms() == []


def test_thousands_of_such_jobs_are_a_few_alarms(quarantine: Quarantine, pending: Make) -> None:
    jobs = [pending(id=str(number), unmanaged=f"cannot run: {number % 40}") for number in range(10_000)]
    quarantine.see(snapshot(*jobs))
    alarms = quarantine.alarms()
    assert len(alarms) == SHOWN_ALARMS + 1
    assert alarms[0] == (
        "job 0, 40, 80 and 247 more: cannot run: 0; Tiresias leaves it as it is; to end it: scancel 0 40 80"
    )


def test_a_job_whose_record_cannot_be_read_keeps_its_row(journal: Journal, running: Make) -> None:
    ledger = Ledger(journal, Scope(frozenset({"gpu"})))
    one, two = running(1000), running(1000, id="7_2", raw_id=9, array_id=7)
    assert ledger.apply(snapshot(one, two)) == [one, two]
    rows = dict(ledger.jobs)
    lost = [
        running(1000, id=name, state="", readable=False, unmanaged="its record cannot be read") for name in ("1", "7_2")
    ]
    assert ledger.apply(snapshot(*lost)) == []
    assert (ledger.jobs, ledger.strays) == (rows, [])
    assert not any(row.ended for row in rows.values())
    assert ledger.apply(snapshot(one, two)) == [one, two]


def test_an_unreadable_task_leaves_the_other_tasks_alone(quarantine: Quarantine, pending: Make) -> None:
    quarantine.see(snapshot(pending(id="7_2", array_id=7, readable=False, unmanaged="its record cannot be read")))
    assert [job_id for job_id in ("7", "7_1", "7_2", "72") if quarantine.holds(job_id)] == ["7_2"]
    quarantine.see(snapshot(pending(id="7", readable=False, unmanaged="its record cannot be read")))
    assert [job_id for job_id in ("7", "7_1", "7_2", "72") if quarantine.holds(job_id)] == ["7", "7_1", "7_2"]


def test_one_job_that_the_state_database_refuses_ends_no_accounting(journal: Journal, pending: Make) -> None:
    quarantine = Quarantine()
    ledger = Ledger(journal, Scope(frozenset({"gpu"})), quarantine)
    good, bad = pending(id="2"), pending(id="1", uid=2**70)
    assert ledger.apply(snapshot(bad, good)) == [good]
    assert "accounting for it failed with OverflowError" in quarantine.alarms()[0]


def test_the_intent_of_a_job_that_is_set_aside_rests(journal: Journal, running: Make) -> None:
    """Its record is not among the managed ones then: it has not ended."""
    quarantine = Quarantine()
    ledger = Ledger(journal, Scope(frozenset({"gpu"})), quarantine)
    slurm = snapshot(running(1000))
    managed = ledger.apply(slurm)
    backend: Any = object()  # without any operation
    actor = Actor(backend, journal, ledger, PreemptionConfig(), lambda job: JobReport(), quarantine=quarantine)
    actor.see(managed)
    intent = Intent(ledger.jobs["1"].key, "1", 0, IntentKind.PREEMPT, IntentStep.HOLD, began=1000.0, stepped=1000.0)
    journal.begin(intent)
    actor.context.intents["1"] = intent
    actor.advance(1001.0)
    assert "step 'hold' of its preempt failed with AttributeError" in quarantine.alarms()[0]
    actor.see(ledger.apply(slurm))
    actor.advance(1002.0)
    assert (intent.step, intent.outcome) == ("hold", "")


def test_a_release_that_fails_is_reported_and_keeps_no_other_job_held(journal: Journal, pending: Make) -> None:
    ledger = Ledger(journal, Scope(frozenset({"gpu"})))
    jobs = {name: pending(id=name, raw_id=int(name)) for name in ("1", "2")}
    ledger.apply(snapshot(*jobs.values()))
    for row in ledger.jobs.values():
        row.held = True
    released = []

    class Backend:
        def snapshot(self) -> SlurmSnapshot:
            raise SlurmUnavailable("no answer")

        def job(self, job_id: str) -> SlurmJob:
            return jobs[job_id]

        def release(self, job_id: str) -> None:
            if job_id == "1":
                raise OverflowError("too large")
            released.append(job_id)

    backend: Any = Backend()
    problems = Actor(backend, journal, ledger, PreemptionConfig(), lambda job: JobReport()).release_all(1001.0)
    assert released == ["2"]
    assert problems == ["job 1: OverflowError: too large; scontrol release 1"]


def test_a_hold_that_slurm_lifts_and_reports_as_an_error_is_lifted(journal: Journal, pending: Make) -> None:
    """Slurm updates a job that no partition serves, and then answers "Requested partition configuration not available"."""
    ledger = Ledger(journal, Scope(frozenset({"gpu"})))
    job = pending()
    ledger.apply(snapshot(job))
    ledger.jobs["1"].held = True

    class Backend:
        held = True

        def snapshot(self) -> SlurmSnapshot:
            raise SlurmUnavailable("no answer")

        def job(self, job_id: str) -> SlurmJob:
            return job if self.held else pending(priority=1, reason="PartitionConfig")

        def release(self, job_id: str) -> None:
            self.held = False
            raise JobRefused("Requested partition configuration not available now")

    backend: Any = Backend()
    assert Actor(backend, journal, ledger, PreemptionConfig(), lambda job: JobReport()).release_all(1001.0) == []
    assert not ledger.jobs["1"].held
