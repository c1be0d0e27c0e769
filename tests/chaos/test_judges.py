"""What the chaos runs judge in retrospect, on made-up runs: each judge reports a violation, and nothing else."""

from __future__ import annotations

import json
import logging
import math
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.checks import LoggedRun
from tests.chaos.idle import BOUND, idle
from tests.chaos.preemptions import REACH, Requeue, Victim, in_vain, redone, requeues, victims
from tests.chaos.quarantined import quarantined
from tests.chaos.samples import Sample, Waiting, _free, controller_outages
from tests.chaos.service import Accounted, service_wrong
from tests.chaos.windows import Window, Windows
from tiresias.sandbox.replay.replay_results import JobResult, JobRun
from tiresias.simulator.trace import TraceJob
from tiresias.slurm_plugin.commands.controller import LOG_FORMAT
from tiresias.slurm_plugin.state.quarantine import Quarantine

DEADLINE = 6.0


def result(*redone: int) -> JobResult:
    """A training whose runs began at 100, 200, ..."""
    runs = tuple(JobRun(at, 100.0 * (at + 1), 0, steps, 1, 1.0) for at, steps in enumerate(redone))
    return JobResult(
        TraceJob(job_id="train", submit_time=0.0, num_gpus=1, duration=1.0), "train", 0.0, runs, math.nan, 0, ""
    )


@pytest.mark.parametrize(
    ("steps", "seconds", "broken"), [(0, 1.0, 0), (3, 1.0, 1), (3, DEADLINE - 0.1, 1), (3, DEADLINE, 0)]
)
def test_a_requeue_before_the_deadline_redoes_nothing(steps: int, seconds: float, broken: int) -> None:
    """At the deadline a job that is still saving goes back to its last checkpoint."""
    found = [Requeue(150.0, "7", 0, seconds)]
    assert len(redone(found, DEADLINE, {"train": result(0, steps)}, lambda *_: "train")) == broken


def test_a_parked_run_redoes_nothing_however_long_it_waited_for_others() -> None:
    found = [Requeue(150.0, "7", 0, 2 * DEADLINE, "parked")]
    assert len(redone(found, DEADLINE, {"train": result(0, 3)}, lambda *_: "train")) == 1


def test_a_run_that_had_ended_when_its_group_was_requeued_may_redo_steps() -> None:
    """Its node failed, and others of its group had parked."""
    found = [Requeue(150.0, "7", 0, 1.0, "drain")]
    assert redone(found, DEADLINE, {"train": result(0, 3)}, lambda *_: "train") == []


def test_a_run_that_others_ended_may_redo_steps() -> None:
    found = [Requeue(150.0, "7", 0, 1.0)]
    assert redone(found, DEADLINE, {"train": result(0, 0, 9)}, lambda *_: "train") == []


def test_a_task_of_an_array_is_found_by_its_number() -> None:
    found = [Requeue(150.0, "7_2", 0, 1.0)]
    assert len(redone(found, DEADLINE, {"train_2": result(0, 5)}, lambda *_: "train")) == 1


@pytest.mark.parametrize(
    ("version", "state", "absent", "by_slurm"),
    [
        ("22.05.8", "TIMEOUT", [], False),
        ("22.05.8", "TIMEOUT", [(102.0, 110.0)], True),
        ("22.05.8", "TIMEOUT", [(90.0, 99.0)], False),
        ("22.05.8", "TIMEOUT", [(135.0, 140.0)], False),
        ("22.05.8", "TIMEOUT", [(140.0, 165.0)], True),
        ("22.05.8", "FAILED", [(102.0, 110.0)], False),
        ("26.05.5", "TIMEOUT", [], False),
        ("26.05.5", "TIMEOUT", [(140.0, 165.0)], True),
        ("26.05.5", "TIMEOUT", [(110.0, 130.0)], False),
    ],
)
def test_a_run_that_slurm_ends_at_its_limit_without_a_warning_is_slurms_own_loss(
    version: str, state: str, absent: list[tuple[float, float]], by_slurm: bool
) -> None:
    """22.05 passes no end of the run: a job asks for it in the first half of its time."""
    run = LoggedRun("6", 6, "train", state, submit=99, start=100, end=165, limit=60.0, managed=True, gpus=2)
    assert run.ended_without_requeue(absent, version) == by_slurm


VICTIM = Victim("7", "8", 1000.0)


@pytest.mark.parametrize(
    ("start", "broken"), [(1003.0, False), (1000.0 + REACH, False), (1001.0 + REACH, True), (990.0, True)]
)
def test_a_beneficiary_has_to_start_soon(start: float, broken: bool) -> None:
    found, judged = in_vain([VICTIM], {("8", "new"): [start]}, lambda *_: "new", Windows(), {"new": "bob"})
    assert (bool(found), judged) == (broken, 1)


@pytest.mark.parametrize(
    ("window", "judged"),
    [
        (Window(1010, 1011), 0),
        (Window(1010, 1011, "new"), 0),
        (Window(1010, 1011, "bob"), 0),
        (Window(995, 996), 0),
        (Window(1010, 1011, "else"), 1),
        (Window(900, 980), 1),
        (Window(1100, 1200), 1),
    ],
)
def test_what_befell_a_beneficiary_explains_it(window: Window, judged: int) -> None:
    found, count = in_vain([VICTIM], {}, lambda *_: "new", Windows([window]), {"new": "bob"})
    assert (len(found), count) == (judged, judged)


def test_victims_and_requeues_are_read_back(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "journal.sqlite") as db:
        db.execute("create table intent (id text, kind text, beneficiary text, began real, outcome text)")
        rows = [
            ("7", "preempt", "8", 1000.0, "parked: 0.4 s after the decision"),
            ("9", "preempt", "8", 1000.0, "left running: it could not be preempted"),
            ("6", "preempt", "", 1000.0, "parked: it had saved before"),
            ("8", "start", "", 1001.0, "running: on gpu01:4"),
        ]
        db.executemany("insert into intent values (?, ?, ?, ?, ?)", rows)
    assert victims(tmp_path / "journal.sqlite") == [VICTIM]
    assert requeues(tmp_path / "none") == []
    (tmp_path / "log").write_text(json.dumps({"time": 1.0, "job": "7", "restart": 0, "seconds": 0.5}) + "\n")
    assert requeues(tmp_path / "log") == [Requeue(1.0, "7", 0, 0.5)]


def sample(
    time: float, free: int = 4, reason: str = "JobHeldAdmin", attained: float = 0.0, published: float = 0.0
) -> Sample:
    waiting = (Waiting("8", "new", "bob", reason),)
    return Sample(time, {"8": "new"}, waiting, {"gpu01": free}, published or time, {"8": attained})


def waits(seconds: float, gpus: int = 4, windows: Windows | None = None, **more: object) -> bool:
    """Whether a job that waits for so long beside free GPUs is reported."""
    samples = [sample(1000.0 + at, **more) for at in range(int(seconds) + 1)]  # type: ignore[arg-type]
    return bool(idle(samples, {"new": gpus}, windows or Windows())[0])


def test_gpus_that_idle_beside_a_job_are_reported() -> None:
    assert not waits(BOUND)
    assert waits(BOUND + 1)
    assert not waits(60, gpus=5), "it does not fit"
    assert not waits(60, reason="Licenses")
    assert not waits(60, published=500.0), "the controller does not answer, or its clock is wrong"
    assert not waits(60, windows=Windows([Window(1000.0 + at, 1001.0 + at) for at in range(0, 60, 10)]))
    assert not waits(60, windows=Windows([Window(1000, 1060, "bob")]))
    assert waits(60, windows=Windows([Window(1000, 1060, "alice")]))


def test_gpus_on_more_nodes_than_a_job_requests_are_no_idle_ones() -> None:
    samples = [replace(sample(1000.0 + at), free={"gpu01": 3, "gpu02": 3, "gpu03": 2}) for at in range(40)]
    for gpus, nodes, broken in ((4, 1, 0), (3, 1, 1), (7, 2, 0), (6, 2, 1)):
        assert len(idle(samples, {"new": gpus}, Windows(), {"new": nodes})[0]) == broken
    assert len(idle(samples, {"new": 8}, Windows())[0]) == 1, "any nodes do"


def test_a_gap_between_samples_is_no_evidence() -> None:
    samples = [sample(1000.0 + 10 * at) for at in range(10)]
    assert idle(samples, {"new": 4}, Windows()) == ([], 0.0)


def test_gpus_of_nodes_that_take_no_jobs_are_not_free() -> None:
    lines = "gpu01 idle gpu:0\ngpu02 mixed gpu:3(IDX:0-2)\ngpu03 drained gpu:0\ngpu04 allocated gpu:(null):1(IDX:0)\n"
    assert _free(lines) == {"gpu01": 4, "gpu02": 1, "gpu03": 0, "gpu04": 0}


def test_an_outage_of_the_controller_ends_with_its_next_cycle() -> None:
    samples = [sample(1000.0 + at, published=1000.0 + at) for at in (0, 4, 9, 10)]
    deaths: list[dict[str, Any]] = [
        {"time": 1003.0, "point": "start begin after"},
        {"time": 1003.0, "life": 1},
        {"time": 1005.0, "life": 2},
    ]
    assert controller_outages([*deaths, {"time": 1020.0, "life": 3}], samples) == [
        (1003.0, 1004.0),
        (1005.0, 1009.0),
        (1020.0, 1020.0),
    ]


RUNS = [Accounted("8", "new", 1000.0, 1100.0, 4), Accounted("8", "new", 1200.0, 1300.0, 4)]


@pytest.mark.parametrize(
    ("time", "attained", "broken"),
    [(1050.0, 200.0, 0), (1250.0, 600.0, 0), (1250.0, 200.0, 1), (1250.0, 400.0, 1), (1250.0, 1000.0, 1), (1300.0, 800.0, 0)],
)  # fmt: skip
def test_attained_service_counts_all_runs(time: float, attained: float, broken: int) -> None:
    """200: the newest run alone. 400: the present one is missing."""
    found, compared = service_wrong([sample(time, attained=attained)], RUNS, [], {})
    assert (len(found), compared) == (broken, 1)


def test_an_end_that_the_controller_saw_late_is_tolerated() -> None:
    late = [sample(1250.0, attained=600.0 + 4 * 20.0)]
    assert len(service_wrong(late, RUNS, [], {})[0]) == 1
    assert service_wrong(late, RUNS, [(1095.0, 1120.0)], {})[0] == []
    assert service_wrong(late, RUNS, [(1100.0, 1120.0), (1095.0, 1101.0)], {})[0] == [], "one period follows the other"
    assert service_wrong(late, RUNS, [], {"new": None}) == ([], 0)


def test_a_job_that_is_set_aside_is_found_in_the_log_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The lines are those of the product, in the format of `tiresias controller`."""
    form, aside = logging.Formatter(LOG_FORMAT), Quarantine()
    for _ in range(2):
        with aside.guard("its hold", "176"):
            raise ValueError("of a defect")
    logging.getLogger("tiresias").warning("job 177: not started: Slurm reports Resources")
    (log := tmp_path / "controller.log").write_text("".join(f"{form.format(record)}\n" for record in caplog.records))
    assert len(caplog.records) == 3
    words = "job 176: set aside: its hold failed with ValueError: of a defect; report this as a defect of Tiresias"
    assert quarantined(log) == [words]
