"""A time limit that is reduced or set while a job runs: which supervisors are signalled, how often, at which cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.slurm_plugin.transitions.actor_harness import ActorHarness, Make
from tiresias.protocol.control import JobReport
from tiresias.slurm_plugin.backends.budget import Bucket
from tiresias.slurm_plugin.backends.interface import JobRefused, SlurmUnavailable
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.transitions import reduced_limits
from tiresias.slurm_plugin.transitions.allowance import Allowance
from tiresias.slurm_plugin.transitions.reduced_limits import SIGNAL_RETRY_S, SIGNALS

START, END, NOW = 1000, 4600.0, 1500.0
FOREVER = float("inf")
SENT = ("1", "URG")


class Run(ActorHarness):
    """Job 1, which runs since START with a limit of an hour, and can save; its supervisor knows that."""

    def __init__(self, journal: Journal, running: Make, **changes: Any) -> None:
        super().__init__(journal, running(START, **{"time_limit": 3600} | changes))
        self.report = JobReport(0, "running", True, 7, end=END)
        self.reads = 0

    def restart_controller(self) -> None:
        super().restart_controller()
        self.actor.context.report = self._read

    def _read(self, job: object) -> JobReport:
        self.reads += 1
        return self.report

    def cycle(self, now: float = NOW) -> list[tuple[str, str]]:
        """A cycle, with a snapshot; return all signals so far."""
        self.actor.signal_reduced_limits(self.refresh(), now)
        return self.slurm.signals


@pytest.fixture
def run(journal: Journal, running: Make) -> Run:
    """After the first cycle that has seen it."""
    found = Run(journal, running)
    assert found.cycle() == []
    return found


def test_a_reduced_limit_is_signalled_once(run: Run) -> None:
    run.slurm.change(time_limit=900)
    assert run.cycle(NOW + 1) == [SENT]
    run.report = run.report._replace(end=START + 900.0)
    for second in range(2, 200):
        assert run.cycle(NOW + second) == [SENT]


def test_a_limit_that_is_set_on_a_run_without_one_is_signalled(journal: Journal, running: Make) -> None:
    run = Run(journal, running, time_limit=0)
    run.report = run.report._replace(end=FOREVER)
    assert (run.cycle(), run.reads) == ([], 0), "no other end can be expected"
    run.slurm.change(time_limit=365 * 86400)  # as slurmctld shows it now and then
    assert (run.cycle(), run.reads) == ([], 0)
    run.slurm.change(time_limit=900)
    assert run.cycle(NOW + 1) == [SENT]


@pytest.mark.parametrize("limit", [3600, 3630, 7200, 0])
def test_an_end_that_is_no_earlier_is_not_signalled(run: Run, limit: int) -> None:
    """The supervisor asks by itself before it saves."""
    run.slurm.change(time_limit=limit)
    assert run.cycle(NOW + 1) == []


def test_after_a_restart_each_run_is_compared_once(run: Run) -> None:
    """The limit was reduced while no controller ran."""
    run.slurm.change(time_limit=900)
    run.restart_controller()
    assert run.cycle(NOW + 1) == [SENT]


@pytest.mark.parametrize(
    "report",
    [
        JobReport(),
        JobReport(0, "running", True, 7),  # of an earlier release, or on 22.05 before the first answer
        JobReport(0, "running", True, 7, end=END)._replace(restart=1),
        JobReport(0, "running", False, end=END),  # its program cannot save
        JobReport(0, "saving", True, 7, end=END),
        JobReport(0, "parked", True, 7, end=END),
        JobReport(0, "ended", True, 7, end=END),
    ],
)
def test_a_job_that_would_not_save_for_it_is_not_signalled(run: Run, report: JobReport) -> None:
    run.report = report
    run.slurm.change(time_limit=900)
    assert run.cycle(NOW + 1) == []


def test_a_program_that_registers_later(run: Run) -> None:
    run.report = run.report._replace(ready=False)
    run.slurm.change(time_limit=1800)
    assert run.cycle(NOW + 1) == []
    run.report = run.report._replace(ready=True)
    assert run.cycle(NOW + 1 + reduced_limits.LONGEST_CHECK_S) == [SENT]


def test_a_new_run_is_compared_with_its_own_report(run: Run) -> None:
    """The report of the run before is of no meaning for it."""
    run.slurm.change(time_limit=900)
    run.slurm.change(restarts=1, start_time=2000)
    assert run.cycle(2001) == []
    run.report = run.report._replace(restart=1, end=2900.0)
    assert run.cycle(2061) == []


def test_a_signal_without_an_effect_is_repeated_twice(run: Run) -> None:
    run.slurm.change(time_limit=1800)
    for second in range(0, 1000, 5):
        run.cycle(NOW + second)
    assert run.slurm.signals == [SENT] * SIGNALS


def test_a_claim_costs_a_few_signals_at_most(run: Run) -> None:
    """A supervisor that reports another end each time."""
    run.slurm.change(time_limit=1800)
    for second in range(0, 2000, 5):
        run.report = run.report._replace(end=END + second)
        run.cycle(NOW + second)
    assert len(run.slurm.signals) == SIGNALS


def test_a_job_that_slurm_does_not_signal_now_is_signalled_again(run: Run) -> None:
    run.slurm.change(time_limit=1800)
    run.slurm.fail("signal", JobRefused("job 1: slurmctld answers, and does not signal it"))
    assert run.cycle(NOW) == []
    assert run.actor.context.quarantine.alarms() == []
    assert run.cycle(NOW + SIGNAL_RETRY_S) == [SENT]


def test_slurmctld_is_unavailable(run: Run) -> None:
    run.slurm.change(time_limit=1800)
    run.slurm.fail("signal", SlurmUnavailable("no answer"))
    with pytest.raises(SlurmUnavailable):
        run.cycle(NOW)
    assert run.cycle(NOW + 2) == [SENT]


def test_signals_wait_for_calls_that_starts_need(run: Run) -> None:
    bucket = Bucket(100, 0.001)
    bucket.take(99)
    run.actor.context.allowance = Allowance(bucket)
    run.slurm.change(time_limit=900)
    assert run.cycle(NOW) == []
    assert run.actor.context.allowance.postponed == 1
    bucket.take(-90)
    assert run.cycle(NOW) == [SENT]


def test_the_soonest_end_is_signalled_first(run: Run, running: Make) -> None:
    for number, limit in (("2", 1800), ("3", 600), ("4", 1200)):
        run.slurm.jobs[number] = running(START, id=number, raw_id=int(number), time_limit=limit)
    assert [job for job, _ in run.cycle()] == ["3", "4", "2"]


def test_many_reduced_limits_do_not_delay_a_cycle(run: Run, running: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is for the next cycle, which begins at once."""
    for number, limit in (("2", 1800), ("3", 600)):
        run.slurm.jobs[number] = running(START, id=number, raw_id=int(number), time_limit=limit)
    monkeypatch.setattr(reduced_limits, "WORK_S", -1.0)
    assert run.cycle() == []
    assert run.actor.context.allowance.postponed == 2
    monkeypatch.undo()
    assert len(run.cycle()) == 2


def test_a_run_that_was_suspended_is_not_compared_again(run: Run) -> None:
    """Slurm moves its end to a later time, and its limit stays."""
    run.report = run.report._replace(end=END + 500)
    before = run.reads
    for state in ("SUSPENDED", "RUNNING"):
        run.slurm.change(state=state)
        assert run.cycle(NOW + 500) == []
    assert run.reads == before


def test_a_limit_that_was_reduced_before_a_suspension_is_signalled_after_it(run: Run) -> None:
    run.report = run.report._replace(ready=False)
    run.slurm.change(time_limit=1800)
    run.cycle(NOW)
    run.slurm.change(state="SUSPENDED")
    run.report = run.report._replace(ready=True)
    assert run.cycle(NOW + 100) == [], "Slurm signals no suspended job"
    run.slurm.change(state="RUNNING")
    assert run.cycle(NOW + 200) == [SENT]


def test_jobs_that_do_not_change_cost_no_reads(
    journal: Journal, running: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(journal, running)
    for number in range(2, 300):
        run.slurm.jobs[str(number)] = running(START, id=str(number), raw_id=number, time_limit=3600)
    run.cycle()
    assert run.reads == 299
    seen: list[str] = []
    monkeypatch.setattr(reduced_limits.ReducedLimits, "_compare", lambda self, check, now: seen.append(check.job.id))
    run.slurm.change("17", nice=1)  # another record with the same limit
    run.slurm.change("18", time_limit=600)
    run.cycle(NOW + 1)
    assert seen == ["18"]


def test_a_job_without_a_supervisor_is_compared_for_ten_minutes(run: Run) -> None:
    run.report = JobReport()
    run.slurm.change(time_limit=1800)
    for second in range(0, 10_000, 5):
        run.cycle(NOW + second)
    before = run.reads
    assert before < 20
    assert run.cycle(NOW + 20_000) == []
    assert run.reads == before


def test_a_job_that_ends_meanwhile_is_forgotten(run: Run) -> None:
    run.report = run.report._replace(ready=False)
    run.slurm.change(time_limit=900)
    run.cycle(NOW + 1)
    before, job = run.reads, run.slurm.jobs.pop("1")
    for second in range(2, 500):
        run.cycle(NOW + second)
    assert run.reads == before
    run.report = run.report._replace(ready=True)
    run.slurm.jobs["1"] = replace(job, submit_time=1200, start_time=1300, time_limit=100)  # Slurm reuses its id
    assert run.cycle(NOW + 501) == [SENT]


def test_a_clock_that_is_set_back_delays_nothing(run: Run) -> None:
    run.report = run.report._replace(ready=False)
    run.slurm.change(time_limit=1800)
    run.cycle(NOW + 10_000)
    run.report = run.report._replace(ready=True)
    assert run.cycle(NOW) == [SENT]


def test_an_allocation_has_no_supervisor(journal: Journal, running: Make) -> None:
    run = Run(journal, running, batch=False, time_limit=900)
    assert (run.cycle(), run.reads) == ([], 0)
