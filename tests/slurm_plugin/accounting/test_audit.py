"""The comparison of the journal's runs with those of accounting."""

from __future__ import annotations

from tiresias.slurm_plugin.accounting.accounted_jobs import AccountedJob, AccountedRun
from tiresias.slurm_plugin.accounting.audit import Audit, audit
from tiresias.slurm_plugin.state.journal_rows import RunRow

NOW = 100_000.0


def journaled(restart: int, start: float, end: float, gpus: int = 4, job: str = "7") -> tuple[str, RunRow]:
    return job, RunRow(f"{job}@1000", restart, start, end, gpus, "gpu01:4")


def accounted(*runs: tuple[int, float, float], job: str = "7", gpus: int = 4) -> AccountedJob:
    reported = tuple(AccountedRun(restart, start, end, gpus, ("gpu01",)) for restart, start, end in runs)
    return AccountedJob(job, 1001, 1000.0, reported, 0, 0.0, True)


def compared(journal: list[tuple[str, RunRow]], *jobs: AccountedJob, since: float = 0.0) -> Audit:
    return audit(journal, jobs, since, NOW)


def words(found: Audit) -> list[tuple[str, int, str]]:
    return [(one.job, one.restart, one.what) for one in found.differences]


def test_what_agrees() -> None:
    found = compared([journaled(0, 1010, 1020), journaled(1, 1030, 0)], accounted((0, 1010, 1021), (1, 1030, 0)))
    assert (found.runs, found.largest, found.differences) == (2, 1.0, ())


def test_what_differs() -> None:
    journal = [
        journaled(0, 1010, 1020),
        journaled(1, 1030, 1040),
        journaled(2, 1050, 0),
        journaled(0, 1010, 1020, gpus=2, job="8"),
    ]
    found = compared(
        journal, accounted((0, 1010, 1023), (2, 1050, 1060), (3, 1070, 1080)), accounted((0, 1010, 1020), job="8")
    )
    assert words(found) == [
        ("7", 0, "times differ"),
        ("7", 1, "not in accounting"),
        ("7", 2, "only one of them has ended"),
        ("7", 3, "not in the journal"),
        ("8", 0, "GPUs differ"),
    ]
    assert found.differences[0].journal == (1010, 1020, 4)
    assert found.differences[0].accounting == (1010, 1023, 4)
    assert found.differences[3].journal is None


def test_two_jobs_with_one_id_are_two() -> None:
    journal = [journaled(0, 50_000, 50_010), journaled(0, 1010, 1020)]
    assert compared(journal, accounted((0, 1010, 1020)), accounted((0, 50_000, 50_010))).differences == ()


def test_what_is_too_new_is_not_judged() -> None:
    """The controller polls once a period, and slurmdbd receives records with a delay."""
    assert compared([journaled(0, NOW - 30, 0)]).differences == ()
    assert compared([], accounted((0, NOW - 30, 0))).differences == ()
    assert compared([journaled(0, 1010, 0)], accounted((0, 1010, NOW - 30))).differences == ()
    assert compared([journaled(0, 1010, NOW - 30)], accounted((0, 1010, 0))).differences == ()


def test_runs_before_the_window_are_not_compared() -> None:
    assert compared([journaled(1, 5010, 5020)], accounted((0, 1010, 1020), (1, 5010, 5020)), since=5000.0).runs == 1
