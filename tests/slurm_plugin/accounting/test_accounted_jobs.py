"""Rows of sacct become jobs with their runs, in any order of the rows and with reused job ids."""

from __future__ import annotations

import random
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.errors import UsageError
from tiresias.slurm_plugin.accounting.accounted_jobs import FIELDS, RESTARTS, AccountedJob, AccountedRun, jobs, rows
from tiresias.slurm_plugin.cluster.scope import Scope

SCOPE = Scope(frozenset({"gpu"}), frozenset({"carol"}), frozenset({"exempt"}))
HEADER = "|".join([*FIELDS, RESTARTS])
AGAIN, OVER = ["REQUEUED", "PREEMPTED", "NODE_FAIL"], ["COMPLETED", "CANCELLED by 1001", "FAILED", "TIMEOUT"]


def line(job_id: str, submit: float, start: float, end: float, state: str, gpus: int, restart: str, **more: str) -> str:
    cells = {
        "JobID": job_id, "UID": "1001", "User": "alice", "Account": "science", "Partition": "gpu",
        "Reservation": "", "Submit": f"{submit:.0f}",
        "Start": f"{start:.0f}" if start else "Unknown", "End": f"{end:.0f}" if end else "Unknown", "State": state,
        "AllocTRES": f"billing=9,cpu=4,gres/gpu:a100={gpus},gres/gpu={gpus},mem=1G,node=2" if start else "",
        "NodeList": "gpu[01-02]" if start else "None assigned", RESTARTS: restart,
    }  # fmt: skip
    return "|".join((cells | more)[name] for name in HEADER.split("|"))


def read(*lines: str) -> list[AccountedJob]:
    return jobs(rows([HEADER, *lines], "test"), SCOPE)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[AccountedJob], list[str], list[str]]:
    """Return jobs, their rows of sacct, and the same rows without restart counts. Some ids are used twice."""
    made, reported, untold = [], [], []
    for job_id in draw(st.lists(st.sampled_from(["7", "12_3", "12_4", "4000000000"]), max_size=4, unique=True)):
        clock = draw(st.integers(1, 10**9))
        for _ in range(draw(st.integers(1, 2))):
            clock, job, lines, bare = _bearer(draw, job_id, clock + 100)
            made.append(job)
            reported += lines
            untold += bare
    order = draw(st.randoms(use_true_random=False))
    order.shuffle(reported)
    order.shuffle(untold)
    return made, reported, untold


def _bearer(draw: st.DrawFn, job_id: str, clock: int) -> tuple[int, AccountedJob, list[str], list[str]]:
    gpus, first = draw(st.integers(1, 64)), clock
    runs, reported, untold, ends = [], [], [], []
    for restart in range(count := draw(st.integers(1, 4))):
        submit = clock
        start = submit + draw(st.integers(0, 500))
        clock = end = start + draw(st.integers(1, 5000))
        state = draw(st.sampled_from(OVER if restart == count - 1 else AGAIN))
        if state in ("REQUEUED", "PREEMPTED"):
            ends.append(float(end))
        runs.append(AccountedRun(restart, float(start), float(end), gpus, ("gpu01", "gpu02")))
        reported.append(line(job_id, submit, start, end, state, gpus, str(restart)))
        untold.append(line(job_id, submit, start, end, state, gpus, ""))
        clock += draw(st.integers(1, 60))
    job = AccountedJob(job_id, 1001, float(first), tuple(runs), len(ends), max(ends, default=0.0), True)
    return clock, job, reported, untold


@given(histories())
def test_every_run_comes_back(history: tuple[list[AccountedJob], list[str], list[str]]) -> None:
    made, reported, untold = history
    expected = sorted(made, key=lambda job: (job.id, job.submit))
    assert sorted(read(*reported), key=lambda job: (job.id, job.submit)) == expected
    assert sorted(read(*untold), key=lambda job: (job.id, job.submit)) == expected


@given(histories(), st.integers(0, 40))
def test_what_is_missing_before_the_window_is_noticed(
    history: tuple[list[AccountedJob], list[str], list[str]], cut: int
) -> None:
    """Slurm prints only the rows since a given time: no job without all its rows counts as whole."""
    made, reported, _ = history
    by_submit = sorted(reported, key=lambda one: int(one.split("|")[HEADER.split("|").index("Submit")]))
    whole = {(job.id, job.submit): job for job in made}
    for job in read(*by_submit[cut:]):
        assert not job.whole or whole[job.id, job.submit] == job


def test_unmanaged_jobs_are_left_out() -> None:
    run = (1000.0, 1010.0, 1020.0, "COMPLETED", 4, "0")
    assert read(
        line("1", *run, Partition="other"), line("2", *run, Reservation="reserved"), line("3", *run, AllocTRES="cpu=4"),
        line("8", *run, User="carol"), line("9", *run, Account="exempt"),
        line("4+0", *run), line("5.batch", *run), line("6_[1-9]", *run), line("7", 1000, 0, 1020, "CANCELLED by 5", 4, "0"),
    ) == []  # fmt: skip


def test_a_run_that_goes_on_and_a_wait_that_ended_in_none() -> None:
    (one,) = read(line("1", 1000, 1010, 1020, "REQUEUED", 4, "0"), line("1", 1021, 0, 1030, "CANCELLED by 5", 4, "1"))
    assert (one.runs, one.preemptions) == ((AccountedRun(0, 1010.0, 1020.0, 4, ("gpu01", "gpu02")),), 1)
    (one,) = read(line("1", 1000, 1010, 0, "RUNNING", 4, "0"))
    assert one.runs == (AccountedRun(0, 1010.0, 0.0, 4, ("gpu01", "gpu02")),)


def test_times_may_be_written_as_sacct_does_by_itself() -> None:
    moment = datetime(2026, 11, 21, 17, 0, 5)
    (one,) = read(line("1", 1000, 1010, 0, "RUNNING", 4, "0", Submit=moment.isoformat(), Start=moment.isoformat()))
    assert one.submit == one.runs[0].start == moment.timestamp()


def test_the_order_of_columns_and_more_of_them_do_no_harm() -> None:
    names = [*HEADER.split("|"), "Elapsed"]
    cells = [*line("1", 1000, 1010, 1020, "COMPLETED", 4, "0").split("|"), "00:00:10"]
    order = list(range(len(names)))
    random.Random(1).shuffle(order)
    (one,) = jobs(rows(["|".join(text[at] for at in order) for text in (names, cells)], "test"), SCOPE)
    assert one.runs[0].start == 1010


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "dump: line 1: no column"),
        (["hello"], "dump: line 1: no column"),
        ([HEADER.replace("|Start", "")], "dump: line 1: no column Start"),
        ([HEADER, "1|2"], "dump: line 2: invalid sacct row: '1|2'"),
        ([HEADER, line("1", 1000, 1010, 1020, "COMPLETED", 4, "0", Submit="soon")], "dump: line 2: invalid sacct row"),
        ([HEADER, line("1", 1000, 1010, 1020, "COMPLETED", 4, "many")], "dump: line 2: invalid sacct row"),
    ],
)
def test_what_is_no_dump_is_refused_in_one_line(lines: list[str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        list(rows(lines, "dump"))
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)
