"""What owners used, by the runs of a journal and Slurm's fair-share tree."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.slurm_plugin.backends.test_assoc_mgr import association
from tiresias.scheduler.config import PolicyConfig
from tiresias.slurm_plugin.backends import assoc_mgr
from tiresias.slurm_plugin.backends.slurm_rules import FairShare
from tiresias.slurm_plugin.cluster.fair_share_tree import shares_of_accounts, shares_of_users
from tiresias.slurm_plugin.observation.owner_usage import OwnerUsage, counted
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_history import ServedRun
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow

FAIR = PolicyConfig(fairness="users", usage_half_life=1000.0, usage_period=100.0)
TREE = (
    FairShare("root", "", None, 1.0),
    FairShare("root", "", 0, 1.0),
    FairShare("science", "root", None, 3.0),
    FairShare("arts", "root", None, 1.0),
    FairShare("physics", "science", None, 1.0),
    FairShare("biology", "science", None, 1.0),
    FairShare("physics", "", 7, 1.0),
    FairShare("biology", "", 7, 1.0),
    FairShare("biology", "", 8, 3.0),
)


def test_shares_are_products_of_the_parts_of_all_levels() -> None:
    assert shares_of_accounts(TREE) == {
        "science": 3 / 5, "arts": 1 / 5, "physics": 3 / 10, "biology": 3 / 10,
    }  # fmt: skip
    users = shares_of_users(TREE)
    assert users["7"] == pytest.approx(0.3 + 0.3 / 4)
    assert users["8"] == pytest.approx(0.3 * 3 / 4)


def test_accounts_above_each_other_end() -> None:
    loop = (FairShare("a", "b", None, 1.0), FairShare("b", "a", None, 1.0))
    assert set(shares_of_accounts(loop)) == {"a", "b"}


def test_the_tree_of_scontrol() -> None:
    text = "\n".join([association("science", parent="root"), association("science", "alice"), "ClusterName=c broken"])
    assert list(assoc_mgr.fair_shares(text)) == [
        FairShare("science", "root", None, 1.0), FairShare("science", "", 2001, 1.0),
    ]  # fmt: skip
    inherited = association("science", "alice").replace(
        "SharesRaw/Norm/Level/Factor=1/", f"SharesRaw/Norm/Level/Factor={2**31 - 1}/"
    )
    assert [one.raw for one in assoc_mgr.fair_shares(inherited)] == [1.0]


@given(st.text(max_size=300))
def test_any_text_is_no_tree(text: str) -> None:
    assert not [one for one in assoc_mgr.fair_shares(text) if not one.account and one.raw < 0]


def run(uid: int, job: str, start: float, end: float, gpus: int = 1, account: str = "science") -> ServedRun:
    return ServedRun(uid, account, job, start, end, gpus)


@given(st.lists(st.floats(0.0, 900.0), max_size=5).map(sorted))
def test_a_job_in_parts_counts_as_one(cuts: list[float]) -> None:
    """Requeued, or cancelled and submitted again under another id."""
    moments = [100.0, *(100.0 + cut for cut in cuts), 1000.0]
    parts = [run(7, str(number), *pair) for number, pair in enumerate(pairwise(moments))]
    whole, other = run(7, "1", 100.0, 1000.0), run(8, "99", 100.0, 600.0)
    one, split = (counted([*runs, other], FAIR, 1000.0, ()).use for runs in ([whole], parts))
    assert split["7"] == pytest.approx(one["7"])


def test_a_user_counts_over_all_accounts_and_an_account_over_all_users() -> None:
    runs = [
        run(7, "1", 0, 100),
        run(7, "2", 0, 100, account="arts"),
        run(8, "3", 0, 100),
        run(8, "4", 0, 50, account=""),
    ]
    assert counted(runs[:3], FAIR, 100.0, ()).use == pytest.approx({"7": 4 / 3, "8": 2 / 3})
    by_account = counted(runs, replace(FAIR, fairness="accounts"), 100.0, ())
    assert by_account.use == pytest.approx({"science": 4 / 3, "arts": 2 / 3})  # what has no account counts for none
    assert by_account.share == pytest.approx({"science": 0.5, "arts": 0.5})


def test_arrays_and_users_whose_service_ranks_their_jobs() -> None:
    runs = [run(7, "5_1", 0, 100), run(7, "5_2", 0, 100, gpus=3), run(7, "6", 0, 50)]
    endless = replace(FAIR, usage_half_life=float("inf"))
    assert counted(runs, replace(endless, attained="array"), 100.0, ()).served == {"7 5": 400.0, "7 6": 50.0}
    assert counted(runs, replace(endless, attained="user"), 100.0, ()).served == {"7": 450.0}


def test_a_journal_is_read_once_in_a_period(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for uid, end in ((7, 90.0), (8, 0.0)):
        journal.save_job(JobRow(f"{uid}@0", str(uid), uid, 0.0, ended=bool(end), over=end))
        journal.save_run(RunRow(f"{uid}@0", 0, 10.0, end, 2, "", account="science"))
    usage = OwnerUsage(journal)
    first = usage.of(FAIR, 150.0, ())
    assert first.at == 100.0
    assert first.use["8"] > 1.0 > first.use["7"]
    assert usage.of(FAIR, 199.0, ()) is first
    assert OwnerUsage(journal).of(FAIR, 199.0, ()) == first  # as after a restart
    assert usage.of(FAIR, 200.0, ()).use["8"] > first.use["8"]
    assert usage.of(FAIR, 90.0 + 21_000.0, ()).use.keys() == {"8"}  # the other run has decayed


lives = st.lists(st.tuples(st.integers(7, 9), st.floats(0.0, 900.0), st.floats(1.0, 900.0)), max_size=12)


@given(lives, st.lists(st.floats(0.0, 400.0), min_size=1, max_size=4))
def test_a_count_that_reads_what_is_new_is_that_of_all_runs(
    jobs: list[tuple[int, float, float]], steps: list[float]
) -> None:
    """Jobs by their owner, start and seconds; counts after each of the steps, in seconds."""
    journal, usage, now = RunsUntil(jobs), OwnerUsage(RunsUntil(jobs)), 0.0
    for step in steps:
        now = journal.now = usage._runs.now = now + step  # type: ignore[attr-defined]
        kept, anew = usage.of(FAIR, now, ()), OwnerUsage(journal).of(FAIR, now, ())
        assert kept.use == pytest.approx(anew.use)
        assert kept.excess == pytest.approx(anew.excess)


class RunsUntil:
    """The runs that a journal has at a moment."""

    def __init__(self, jobs: list[tuple[int, float, float]]) -> None:
        self.jobs, self.now = jobs, 0.0

    def served_runs(self, since: float) -> list[ServedRun]:
        found = list[ServedRun]()
        for number, (uid, start, seconds) in enumerate(self.jobs):
            over = start + seconds if start + seconds <= self.now else 0.0
            if start <= self.now and (not over or over > since):
                found.append(ServedRun(uid, "science", str(number), start, over, 1, str(number), over))
        return found
