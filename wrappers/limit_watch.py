"""The time limit of a run, as the supervisor follows it: when Slurm ends the run, and when to save for it.

Slurm is asked for the end (end_query.py)

- where its environment has none, as with Slurm 22.05: some seconds after the start, later again while there is no answer;
- once before the save for the limit: an administrator may have moved the end to a later time;
- when the controller sends control.LIMIT_SIGNAL, because Slurm's record has an earlier end than the one that the supervisor reports
  (transitions/reduced_limits.py). Slurm's answer counts: a signal of another sender costs a query, at most one in LEAST_BETWEEN_S.

There is no periodic query: thousands of jobs share one slurmctld. So without a controller in mode exact or assist an end that moves
to an earlier time is not detected. Jobs whose program cannot save ask nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from tiresias.protocol import control
from tiresias.protocol.job_log import log_line
from tiresias.wrappers import time_limit
from tiresias.wrappers.control_channel import ControlChannel
from tiresias.wrappers.end_query import EndAnswer, EndQuery

FOREVER = float("inf")
LIMIT_POLL_S = 60.0  # between polls of the program's save time, where there is a time limit
FIRST_QUERY_S = 5.0  # from the start of the script
RETRY_PART, LONGEST_RETRY_S = 0.25, 120.0  # of the time since the start, until the next query where one has no answer
LEAST_BETWEEN_S = 10.0  # two queries
REPORTED_PROBLEMS = 5  # queries without an answer, after which the log has a line
CHECK_AHEAD_S = 15.0  # before the save for the limit
CHECKED_PART = 0.25  # of the time until that save, at most
LEAST_MOVE_S = 30.0  # that the log reports: a time limit has whole minutes


class LimitWatch:
    """When Slurm ends this run, and whether to save for that.

    Args:
        channel: The control folder.
        env: The job's environment.

    Attributes:
        end: Epoch second; inf: no limit, or not known.
    """

    def __init__(self, channel: ControlChannel, env: Mapping[str, str]) -> None:
        passed = time_limit.end_time(env)
        self.end, self._is_known = FOREVER if passed is None else passed, passed is not None
        self._channel, self._query = channel, EndQuery(env)
        self._began, self._spread = time.time(), _spread(env)
        self._started = self._due = FOREVER  # of time.monotonic()
        self._problems = 0
        self._checked = 0.0  # the end that Slurm was asked for before the save
        self._has_given_up = False
        self._is_requested = False  # a query, by the controller
        self._answers_request = False  # the newest query
        if self._is_known:
            channel.publish_end(self.end)

    def begin(self) -> None:
        """Note that the script starts."""
        self._started = time.monotonic()
        self._due = self._started + (0.0 if self._is_known else FIRST_QUERY_S + self._spread % 8)

    def poll(self) -> None:
        """Begin a query where one is due, and take its answer. Returns at once."""
        if answer := self._query.poll():
            self._take(answer)
        elif self._is_query_due():
            self._ask()

    def request(self) -> None:
        """Have Slurm asked as soon as the program can save, and LEAST_BETWEEN_S after the newest query."""
        self._is_requested = True

    def wait(self) -> float:
        """Return the seconds until the next poll is due."""
        if self._has_given_up:
            return FOREVER
        return min(self._query.wait() if self._query.runs else self._query_wait(), self._save_wait())

    def is_near(self) -> bool:
        """Whether to save for the time limit. A program that never registered gets no signal."""
        if self._has_given_up or self.end == FOREVER:
            return False
        return time.time() >= self.end - self.lead() and self._is_ready()

    def lead(self) -> float:
        """Return how many seconds before its end the program must save."""
        save = self._channel.program().get("save")
        known = float(save) if isinstance(save, (int, float)) and 0 <= save <= control.LONGEST else None
        return time_limit.lead(self.end - self._began, known)

    def give_up(self) -> None:
        """One attempt to save before the time limit is enough."""
        self._has_given_up = True

    def stop(self) -> None:
        """End a query: the script has ended."""
        self._query.end()

    def _save_wait(self) -> float:
        if self.end == FOREVER:
            return FOREVER
        lead = self.lead()
        event = self.end - lead if self._is_checked() else self._check_time(lead)
        return min(LIMIT_POLL_S, max(1.0, event - time.time()))

    # queries

    def _query_wait(self) -> float:
        return FOREVER if self._is_known and not self._is_requested else max(self._due - time.monotonic(), 0.0)

    def _is_query_due(self) -> bool:
        if self._has_given_up or self._query.runs or time.monotonic() < self._due:
            return False
        if self._is_known and not self._is_requested:
            return not self._is_checked() and time.time() >= self._check_time(self.lead()) and self._is_ready()
        if not self._is_ready():
            self._postpone()
            return False
        return True

    def _ask(self) -> None:
        self._answers_request, self._is_requested = self._is_requested, False
        if not self._answers_request:
            self._checked = self.end
        self._due = time.monotonic() + LEAST_BETWEEN_S
        if problem := self._query.begin():
            self._take(EndAnswer(0.0, problem))

    def _take(self, answer: EndAnswer) -> None:
        if not answer.problem:
            if self._is_known:
                self._report_move(answer.end)
            self.end, self._is_known = answer.end, True
            self._channel.publish_end(self.end)
        elif self._answers_request or not self._is_known:
            self._is_requested |= self._answers_request
            self._report_problem(answer.problem)
            self._postpone()

    def _postpone(self) -> None:
        now = time.monotonic()
        self._due = now + min(max(FIRST_QUERY_S, (now - self._started) * RETRY_PART), LONGEST_RETRY_S)

    def _is_checked(self) -> bool:
        return self._checked == self.end or self.end == FOREVER

    def _check_time(self, lead: float) -> float:
        save = self.end - lead
        return save - min(CHECK_AHEAD_S + self._spread % 16, max(save - self._began, 0.0) * CHECKED_PART)

    def _is_ready(self) -> bool:
        return bool(self._channel.program().get("ready"))

    # messages

    def _report_move(self, end: float) -> None:
        if end == FOREVER != self.end:
            log_line("the time limit was removed: the run goes on")
        elif end != FOREVER == self.end:
            log_line(f"a time limit was set: the run ends in {end - time.time():.0f} s")
        elif abs(end - self.end) >= LEAST_MOVE_S:
            minutes = (end - self.end) / 60
            log_line(f"the time limit was changed by {minutes:+.0f} min: the run ends in {end - time.time():.0f} s")

    def _report_problem(self, problem: str) -> None:
        self._problems += 1
        if self._problems == REPORTED_PROBLEMS:
            log_line(
                f"Slurm does not report when this run ends ({problem}): without that it cannot save before its time limit"
            )


def _spread(env: Mapping[str, str]) -> int:
    """Return a number by which jobs that start together ask at different times."""
    job = env.get("SLURM_JOB_ID", "")
    return int(job[-9:]) if job.isascii() and job.isdigit() else 0
