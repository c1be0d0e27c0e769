"""When the supervisor asks Slurm for the end of a run, and what follows from the answer. squeue is a script here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.polling import pauses
from tests.wrappers.fake_squeue import FakeSqueue
from tiresias.wrappers import limit_watch, time_limit
from tiresias.wrappers.limit_watch import LimitWatch

INF = float("inf")
JOB = "16"  # asks at once, its number being a multiple of 8 and 16


class Program:
    """The control folder with the program's report."""

    def __init__(self, **report: object) -> None:
        self.report = report
        self.ends: list[float] = []  # as they were published

    def publish_end(self, end: float) -> None:
        self.ends.append(end)

    def program(self) -> dict[str, object]:
        return self.report


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSqueue:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(limit_watch, "FIRST_QUERY_S", 0.05)
    monkeypatch.setattr(limit_watch, "LEAST_BETWEEN_S", 0.1)
    return FakeSqueue(tmp_path)


def watch(program: Program, seconds: float | None = None, **env: str) -> LimitWatch:
    """Return the watch of a run that has begun; seconds: to the end that Slurm passes to it."""
    now = int(time.time())
    times = {} if seconds is None else {"SLURM_JOB_START_TIME": str(now), "SLURM_JOB_END_TIME": str(int(now + seconds))}
    channel: Any = program
    found = LimitWatch(channel, {**os.environ, "SLURM_JOB_ID": JOB, **times, **env})
    found.begin()
    return found


def poll_until(found: LimitWatch, condition: Callable[[], bool]) -> None:
    pause, deadline = pauses(), time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        found.poll()
        pause()


def poll_some_times(found: LimitWatch) -> None:
    """Longer than all waits of these tests."""
    pause, deadline = pauses(), time.monotonic() + 0.6
    while time.monotonic() < deadline:
        found.poll()
        pause()


# Slurm 22.05: the environment has no end


def test_an_end_that_squeue_reports(squeue: FakeSqueue) -> None:
    end = squeue.reports(JOB, 3600)
    found = watch(Program(ready=True))
    assert found.end == INF
    poll_until(found, lambda: found.end == end)
    assert not found.is_near()
    poll_some_times(found)
    assert len(squeue.calls) == 1, "it asks once"
    assert found.wait() == limit_watch.LIMIT_POLL_S


@pytest.mark.parametrize("times", [("x", "160"), ("100", "-5"), ("100", "")])
def test_variables_that_are_no_times_count_as_missing(squeue: FakeSqueue, times: tuple[str, str]) -> None:
    end = squeue.reports(JOB, 3600)
    start, passed = times
    found = watch(Program(ready=True), SLURM_JOB_START_TIME=start, SLURM_JOB_END_TIME=passed)
    poll_until(found, lambda: found.end == end)


def test_a_run_without_a_limit_asks_once(squeue: FakeSqueue) -> None:
    squeue.prints(f"{JOB}|100|NONE\n")
    found = watch(Program(ready=True))
    poll_until(found, lambda: found.wait() == INF)
    poll_some_times(found)
    assert len(squeue.calls) == 1
    assert (found.end, found.is_near()) == (INF, False)


def test_a_program_that_cannot_save_asks_nothing(squeue: FakeSqueue) -> None:
    end, program = squeue.reports(JOB, 3600), Program()
    found = watch(program)
    poll_some_times(found)
    assert squeue.calls == []
    program.report = {"ready": True}
    poll_until(found, lambda: found.end == end)


@pytest.mark.parametrize("output", ["", "nonsense\n", f"{JOB}|5|10\n", f"{JOB}|N/A|N/A\n", "7|100|NONE\n"])
def test_it_asks_again_while_there_is_no_answer(squeue: FakeSqueue, output: str) -> None:
    squeue.prints(output)
    found = watch(Program(ready=True))
    poll_until(found, lambda: len(squeue.calls) >= 2)
    assert (found.end, found.is_near()) == (INF, False)
    end = squeue.reports(JOB, 3600)
    poll_until(found, lambda: found.end == end)


def test_without_squeue_it_asks_again(squeue: FakeSqueue, tmp_path: Path) -> None:
    end = squeue.reports(JOB, 3600)
    squeue.path.rename(tmp_path / "away")
    found = watch(Program(ready=True))
    poll_some_times(found)
    assert found.end == INF
    (tmp_path / "away").rename(squeue.path)
    poll_until(found, lambda: found.end == end)


def test_the_waits_between_queries_without_an_answer_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the steady clock: 1000 jobs send a slurmctld that is overloaded some 8 queries a second at most."""
    now = 0.0
    clock = SimpleNamespace(monotonic=lambda: now, time=time.time)
    monkeypatch.setattr("tiresias.wrappers.limit_watch.time", clock)
    monkeypatch.setenv("PATH", "/nonexistent")
    found, asked = watch(Program(ready=True)), []
    while now < 3600:
        now += found.wait()
        asked.append(now)
        found.poll()
    waits = [later - earlier for earlier, later in pairwise(asked)]
    assert asked[0] == limit_watch.FIRST_QUERY_S
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (limit_watch.FIRST_QUERY_S, limit_watch.LONGEST_RETRY_S)
    assert len(asked) < 50


def test_an_end_that_stays_unknown_is_reported_once(squeue: FakeSqueue, capfd: pytest.CaptureFixture[str]) -> None:
    squeue.prints("slurm_load_jobs error: Unable to contact slurm controller\n")
    found = watch(Program(ready=True))
    poll_until(found, lambda: len(squeue.calls) > limit_watch.REPORTED_PROBLEMS + 1)
    log = capfd.readouterr().err
    assert log.count("Slurm does not report when this run ends (squeue: slurm_load_jobs error: Unable to contact") == 1


def test_an_end_that_is_learned_late_is_near_at_once(squeue: FakeSqueue) -> None:
    squeue.reports(JOB, time_limit.LEAST - 5)
    found = watch(Program(ready=True))
    poll_until(found, found.is_near)


def test_a_squeue_that_hangs_delays_nothing(squeue: FakeSqueue, tmp_path: Path) -> None:
    FakeSqueue(tmp_path, then="exec sleep 1000")
    found = watch(Program(ready=True), time_limit.LEAST + 2)
    longest = 0.0
    pause, deadline = pauses(), time.monotonic() + 20
    while not found.is_near():
        assert time.monotonic() < deadline
        before = time.monotonic()
        found.poll()
        longest = max(longest, time.monotonic() - before)
        pause()
    assert len(squeue.calls) == 1
    assert longest < 1
    assert time.time() < found.end - time_limit.LEAST + 2
    found.stop()
    poll_some_times(found)


# before the save for the limit


def test_a_limit_that_is_not_near_asks_nothing(squeue: FakeSqueue) -> None:
    found = watch(Program(ready=True), 3600)
    poll_some_times(found)
    assert squeue.calls == []
    assert found.wait() == limit_watch.LIMIT_POLL_S


@pytest.mark.parametrize(("seconds", "minutes"), [(3600, 59), (90, 1)])
def test_an_end_that_was_moved_to_a_later_time(
    squeue: FakeSqueue, capfd: pytest.CaptureFixture[str], seconds: int, minutes: int
) -> None:
    found = watch(Program(ready=True), time_limit.LEAST + 3)
    end = squeue.reports(JOB, seconds)
    poll_until(found, lambda: found.end == end)
    assert not found.is_near()
    poll_some_times(found)
    assert len(squeue.calls) == 1, "it asks again only before the new end"
    assert f"the time limit was changed by +{minutes} min: the run ends in" in capfd.readouterr().err


def test_a_limit_that_was_removed(squeue: FakeSqueue, capfd: pytest.CaptureFixture[str]) -> None:
    squeue.prints(f"{JOB}|100|NONE\n")
    found = watch(Program(ready=True), time_limit.LEAST + 3)
    poll_until(found, lambda: found.end == INF)
    assert found.wait() == INF
    assert "the time limit was removed: the run goes on" in capfd.readouterr().err


def test_an_end_that_was_moved_to_an_earlier_time(squeue: FakeSqueue) -> None:
    end = squeue.reports(JOB, 20)
    found = watch(Program(ready=True), time_limit.LEAST + 3)
    poll_until(found, lambda: found.end == end)
    assert found.is_near()


@pytest.mark.parametrize("output", ["same", "", "nonsense\n", f"{JOB}|5|10\n"])
def test_an_end_that_stays_is_asked_for_once(
    squeue: FakeSqueue, capfd: pytest.CaptureFixture[str], output: str
) -> None:
    found = watch(Program(ready=True), time_limit.LEAST + 3)
    end = found.end
    squeue.prints(f"{JOB}|{int(end) - 60}|{int(end)}\n" if output == "same" else output)
    poll_until(found, found.is_near)
    assert (len(squeue.calls), found.end) == (1, end)
    assert end - time_limit.LEAST <= time.time() < end - time_limit.LEAST + 2
    assert capfd.readouterr().err == ""


def test_a_program_that_is_not_ready_asks_nothing_before_its_limit(squeue: FakeSqueue) -> None:
    found = watch(Program(), time_limit.LEAST)
    poll_some_times(found)
    assert (squeue.calls, found.is_near()) == ([], False)


def test_one_attempt_is_enough(squeue: FakeSqueue) -> None:
    squeue.reports(JOB, 3600)
    found = watch(Program(ready=True), time_limit.LEAST)
    found.give_up()
    poll_some_times(found)
    assert (squeue.calls, found.is_near(), found.wait()) == ([], False, INF)


# the controller requests a query


@pytest.mark.parametrize("seconds", [3600, 400 * 86400])
def test_an_end_that_the_controller_reports_as_earlier(
    squeue: FakeSqueue, capfd: pytest.CaptureFixture[str], seconds: int
) -> None:
    """Of a run with a limit, and of one without."""
    program = Program(ready=True)
    found, end = watch(program, seconds), squeue.reports(JOB, 90)
    before = found.end
    found.request()
    assert found.wait() == 0
    poll_until(found, lambda: found.end == end)
    assert not found.is_near()
    assert found.wait() <= limit_watch.LIMIT_POLL_S, "it follows the new end"
    assert program.ends == [before, end]
    log = capfd.readouterr().err
    assert (
        "the time limit was changed by -58 min" if seconds == 3600 else "a time limit was set: the run ends in"
    ) in log
    poll_some_times(found)
    assert len(squeue.calls) == 1


def test_a_limit_that_is_shorter_than_the_lead_is_near_at_once(squeue: FakeSqueue) -> None:
    found = watch(Program(ready=True), 3600)
    squeue.reports(JOB, time_limit.LEAST - 5)
    found.request()
    poll_until(found, found.is_near)


def test_requests_are_answered_together(squeue: FakeSqueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends the signal, and however often."""
    monkeypatch.setattr(limit_watch, "LEAST_BETWEEN_S", 60)
    found = watch(Program(ready=True), 3600)
    end = squeue.reports(JOB, 3600)
    found.request()
    found.request()
    poll_until(found, lambda: found.end == end)
    found.request()
    poll_some_times(found)
    assert (len(squeue.calls), found.end) == (1, end)
    assert 50 < found.wait() <= 60


def test_a_request_during_a_query_has_a_query_of_its_own(squeue: FakeSqueue, tmp_path: Path) -> None:
    """That one may have been answered before the limit was reduced."""
    found, old = watch(Program(ready=True), 3600), squeue.reports(JOB, 3000)
    FakeSqueue(tmp_path, then='while ! [ -e "$0.go" ]; do sleep 0.05; done')
    squeue.reports(JOB, 3000)
    found.request()
    poll_until(found, lambda: len(squeue.calls) == 1)
    found.request()
    (tmp_path / "squeue.go").touch()
    poll_until(found, lambda: abs(found.end - old) < 10)
    end = squeue.reports(JOB, 90)
    poll_until(found, lambda: found.end == end)


def test_a_request_without_an_answer_is_repeated(squeue: FakeSqueue) -> None:
    found = watch(Program(ready=True), 3600)
    squeue.prints("slurm_load_jobs error: Unable to contact slurm controller\n")
    found.request()
    poll_until(found, lambda: len(squeue.calls) >= 2)
    end = squeue.reports(JOB, 90)
    poll_until(found, lambda: found.end == end)


def test_a_request_waits_for_a_program_that_can_save(squeue: FakeSqueue) -> None:
    program = Program()
    found = watch(program, 3600)
    found.request()
    poll_some_times(found)
    assert squeue.calls == []
    assert found.wait() < limit_watch.LIMIT_POLL_S, "it polls for that"
    program.report, end = {"ready": True}, squeue.reports(JOB, 90)
    poll_until(found, lambda: found.end == end)


def test_the_end_is_asked_for_before_the_save_though_it_was_requested(squeue: FakeSqueue) -> None:
    """An administrator may reduce a limit, and then extend it."""
    program = Program(ready=True)
    found = watch(program, time_limit.LEAST + 5)
    squeue.prints(f"{JOB}|{int(found.end) - 60}|{int(found.end)}\n")
    found.request()
    poll_until(found, lambda: program.ends == [found.end, found.end])
    end = squeue.reports(JOB, 3600)
    poll_until(found, lambda: found.end == end)
    assert len(squeue.calls) == 2


def test_jobs_that_start_together_ask_at_different_times(squeue: FakeSqueue) -> None:
    waits = [watch(Program(), SLURM_JOB_ID=str(number)).wait() for number in range(1000, 1008)]
    assert sorted(round(wait) for wait in waits) == list(range(8))
