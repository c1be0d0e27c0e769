"""What mode shadow counts: from when until when it would have acted otherwise than Slurm, through restarts and gaps."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.scheduler.model import Plan, Preempt, Start
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.shadow import Gpus, Shadow
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import Decision
from tiresias.slurm_plugin.state.ledger import Ledger
from tiresias.slurm_plugin.state.watched import Watched

GPUS, LONGEST = 16, 90.0
NOTHING = np.zeros(0, np.int64)
ON = (("gpu01", 4),)


class Watch:
    """A ledger and a shadow for jobs with 4 GPUs each, with given plans."""

    def __init__(self, journal: Journal) -> None:
        self.journal, self.ledger = journal, Ledger(journal, Scope(frozenset({"gpu"})))
        self.shadow = Shadow(journal, LONGEST)

    def record(
        self,
        now: float,
        jobs: Iterable[SlurmJob],
        start: str = "",
        after: str = "",
        preempt: str = "",
        gpus: int = GPUS,
    ) -> list[Decision]:
        """Job ids with blanks between them. after: jobs that start when the preempted ones, for the first of them, have left."""
        slurm = SlurmSnapshot(now, tuple(jobs), ())
        self.ledger.apply(slurm)
        plan = Plan(
            NOTHING,
            NOTHING,
            NOTHING,
            (*(Start(one, ON) for one in start.split()), *(Preempt(one, after.split()[0]) for one in preempt.split())),
            reserved=tuple(Start(one, ON) for one in after.split()),
        )
        busy = sum(job.gpus for job in slurm.jobs if job.state == "RUNNING")
        return self.shadow.record(slurm, plan, self.ledger.jobs, Gpus(gpus, busy, busy // 2))

    @property
    def seen(self) -> Watched:
        assert self.shadow.watched
        return self.shadow.watched


@pytest.fixture
def watch(journal: Journal) -> Watch:
    return Watch(journal)


def rows(journal: Journal, view: str) -> list[dict[str, Any]]:
    with sqlite3.connect(journal.path) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(f"select * from {view}")]


def test_it_counts_until_slurm_started_the_job_itself(
    watch: Watch, pending: Callable[..., SlurmJob], running: Callable[..., SlurmJob]
) -> None:
    output = watch.record(1010.0, [pending()], start="1")
    assert [(one.id, one.action, one.why) for one in output] == [("1", "shadow", "would start on gpu01")]
    assert watch.shadow.phases() == {"1": "to start"}
    assert watch.record(1040.0, [pending()], start="1") == [], "it is reported once"
    watch.record(1070.0, [running(1055)])
    assert watch.shadow.phases() == {}
    seen = watch.seen
    assert (seen.seconds, seen.agreed, seen.idle, seen.taken) == (60.0, 15.0, 45.0 * 4, 0.0)
    assert (seen.sooner, seen.preempted, seen.gpu_seconds) == (1, 0, 60.0 * GPUS)
    (run,) = rows(watch.journal, "watched_run")
    assert (run["job_id"], run["restart"], run["gpus"], run["won"], run["lost"]) == ("1", 0, 4, 45.0, 0)


def test_preemptions_are_recorded_with_their_beneficiary(
    watch: Watch, pending: Callable[..., SlurmJob], running: Callable[..., SlurmJob]
) -> None:
    jobs = [running(1000), pending(id="2", submit_time=1005)]
    output = {one.id: one.why for one in watch.record(1010.0, jobs, after="2", preempt="1")}
    assert output == {"1": "would be preempted for job 2", "2": "would start on gpu01 once job 1 has ended"}
    assert watch.shadow.phases() == {"1": "to stop", "2": "to start"}
    reported = watch.shadow.published()
    assert (reported["start"], reported["preempt"]) == ({"jobs": 1, "gpus": 4}, {"jobs": 1, "gpus": 4})
    ended = running(1000, state="COMPLETED", end_time=1030)
    watch.record(1040.0, [ended, running(1031, id="2", submit_time=1005)])
    seen = watch.seen
    assert (seen.busy, seen.movable) == (30.0 * 4, 30.0 * 2)
    assert (seen.agreed, seen.idle, seen.taken) == (9.0, 0.0, 20.0 * 4), "no GPU was idle: job 1 had them"
    runs = {run["job_id"]: (run["won"], run["lost"]) for run in rows(watch.journal, "watched_run")}
    assert runs == {"1": (None, 20.0), "2": (21.0, 0)}


def test_others_start_on_what_a_victim_leaves_too(
    watch: Watch, pending: Callable[..., SlurmJob], running: Callable[..., SlurmJob]
) -> None:
    jobs = [running(1000), running(1000, id="9", completing=True), *(pending(id=one) for one in "23")]
    output = watch.record(1010.0, jobs, after="2 3", preempt="1")
    assert [one.id for one in output] == ["1", "2", "3"]
    assert watch.record(1020.0, jobs, after="2 3") == [], "it waits for jobs that end without a preemption, as in Slurm"
    assert watch.shadow.phases() == {}


def test_a_requeued_job_is_two_runs(
    watch: Watch, pending: Callable[..., SlurmJob], running: Callable[..., SlurmJob]
) -> None:
    """Requeued by Slurm: the wait before each run counts for that run."""
    watch.record(1010.0, [pending()], start="1")
    watch.record(1030.0, [running(1020)])
    again = pending(restarts=1, submit_time=1050, end_time=1049)
    watch.record(1060.0, [again], start="1")
    watch.record(1090.0, [running(1070, restarts=1, submit_time=1050)])
    assert [(run["restart"], run["won"]) for run in rows(watch.journal, "watched_run")] == [(0, 10.0), (1, 10.0)]
    assert watch.seen.sooner == 2


@pytest.mark.parametrize("gap", [LONGEST + 1, -5.0])
def test_time_without_a_controller_does_not_count(watch: Watch, pending: Callable[..., SlurmJob], gap: float) -> None:
    """A slurmctld that was out of reach, or a clock that was set back."""
    watch.record(1010.0, [pending()], start="1")
    watch.record(1030.0, [pending()], start="1")
    watch.record(1030.0 + gap, [pending()], start="1")
    watch.record(1040.0 + gap, [pending()], start="1")
    assert (watch.seen.seconds, watch.seen.idle) == (30.0, 30.0 * 4)
    assert watch.seen.sooner == 1, "it is the same run"


def test_the_next_controller_goes_on(tmp_path: Path, pending: Callable[..., SlurmJob]) -> None:
    """The earlier controller was killed: its actions last until its last cycle."""
    journal = Journal(tmp_path)
    one = Watch(journal)
    one.record(1010.0, [pending()], start="1")
    one.record(1030.0, [pending()], start="1")
    journal.close()
    journal = Journal(tmp_path)
    two = Watch(journal)
    assert two.seen.seconds == 20.0
    two.record(1045.0, [pending()])
    two.record(1055.0, [pending()])
    assert (two.seen.began, two.seen.until, two.seen.seconds, two.seen.agreed) == (1010.0, 1055.0, 30.0, 10.0)
    assert [row["won"] for row in rows(journal, "watched_run")] == [20.0]
    journal.close()


def test_nodes_that_come_are_counted_from_then_on(watch: Watch) -> None:
    for now, gpus in ((0.0, 16), (10.0, 16), (20.0, 24), (30.0, 24)):
        watch.record(now, [], gpus=gpus)
    assert (watch.seen.gpus, watch.seen.seconds, watch.seen.gpu_seconds) == (24, 20.0, 10.0 * 16 + 10.0 * 24)


def test_pruned_jobs_leave_nothing(watch: Watch, running: Callable[..., SlurmJob]) -> None:
    watch.record(1010.0, [running(1000), running(1000, id="2")], preempt="1", after="2")
    watch.record(1020.0, [running(1000, state="COMPLETED", end_time=1015)])
    assert watch.journal.would_have("1@1000")
    watch.journal.prune(1030.0)
    assert watch.journal.would_have("1@1000") == []
    assert watch.seen.taken == 20.0, "sums stay"


Look = tuple[float, str, list[str]]
LOOKS = st.lists(
    st.tuples(
        st.floats(0.0, LONGEST), st.sampled_from(["", "1", "2", "1 2"]), st.lists(st.sampled_from("34"), unique=True)
    ),
    min_size=1,
    max_size=12,
)


# function_scoped_fixture: they make records, and keep nothing
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(looks=LOOKS)
def test_rows_and_sums_agree(
    looks: list[Look],
    tmp_path_factory: pytest.TempPathFactory,
    pending: Callable[..., SlurmJob],
    running: Callable[..., SlurmJob],
) -> None:
    """Jobs 1, 2 and 5 wait for ever, 3 and 4 run for ever; a record holds until the next one."""
    watch = Watch(Journal(tmp_path_factory.mktemp("state")))
    now, idle, taken, agreed = 1000.0, 0.0, 0.0, 0.0
    jobs = [*(pending(id=one) for one in "125"), *(running(1000, id=one) for one in "34")]
    steps = [0.0, *(step for step, _, _ in looks)]
    for (step, start, victims), ahead in zip(looks, [*steps[2:], 0.0], strict=True):
        now += step
        watch.record(now, jobs, start=start, after="5" if victims else "", preempt=" ".join(victims))
        idle += ahead * 4 * len(start.split())
        taken += ahead * 4 * len(victims)
        agreed += 0.0 if start or victims else ahead
    assert (watch.seen.idle, watch.seen.taken, watch.seen.agreed) == pytest.approx((idle, taken, agreed))
    lasted = [
        (row["action"], row["gpus"] * ((now if row["until"] is None else row["until"]) - row["began"]))
        for row in rows(watch.journal, "would")
    ]
    assert sum(amount for action, amount in lasted if action == "start") == pytest.approx(idle)
    assert sum(amount for action, amount in lasted if action == "preempt") == pytest.approx(taken)
    runs = rows(watch.journal, "watched_run")
    assert watch.seen.sooner == sum(run["won"] is not None for run in runs)
    assert watch.seen.preempted == len({one for _, _, victims in looks for one in victims})
    watch.journal.close()
