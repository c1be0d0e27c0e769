"""A lost, damaged or wrong ledger is rebuilt, and unknown values stay unknown."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tiresias.durable.database import Damaged, StateError
from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.accounting.accounted_jobs import AccountedJob, AccountedRun
from tiresias.slurm_plugin.accounting.rebuild import Rebuilt, rebuild
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import Config, Paths
from tiresias.slurm_plugin.failover.standby import leadership_of
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.journal import FILE, Journal, epoch_of
from tiresias.slurm_plugin.state.journal_rows import Decision, JobRow, RunRow
from tiresias.slurm_plugin.state.ledger import Ledger

Make = Callable[..., SlurmJob]
ENDED = AccountedJob("9", 1002, 500.0, (AccountedRun(0, 510.0, 520.0, 2, ("gpu01", "gpu02")),), 0, 0.0, True)
PREEMPTED = AccountedJob("1", 1001, 1000.0, (AccountedRun(0, 1005.0, 1099.0, 4, ("gpu03",)),), 1, 1099.0, True)
SCOPE = Scope(frozenset({"gpu"}))
NOW = 2000.0


def anew(folder: Path, accounted: list[AccountedJob], *queue: SlurmJob, claim: bool = False) -> Rebuilt:
    return rebuild(Config(paths=Paths(state=folder), period=1.0), accounted, SlurmSnapshot(NOW, queue, ()), claim)


def waits_again(pending: Make, **changes: object) -> SlurmJob:
    return pending(**{"restarts": 1, "submit_time": 1099, **changes})


@contextmanager
def opened(folder: Path) -> Iterator[Journal]:
    with closing(Journal(folder, epoch_of(folder))) as journal:
        yield journal


def test_from_nothing(tmp_path: Path, pending: Make, running: Make) -> None:
    runs = running(1500, id="2", submit_time=1400, shares=running(1500).shares)
    open_run = AccountedJob("2", 1001, 1400.0, (AccountedRun(0, 1500.0, 0.0, 4, ("gpu01",)),), 0, 0.0, True)
    done = anew(tmp_path, [ENDED, PREEMPTED, open_run], waits_again(pending), runs, pending(id="3", submit_time=1700))
    assert (done.jobs, done.runs, done.live, done.lost, done.damage, done.kept) == (3, 3, 3, 0, "there is none", "")
    with opened(tmp_path) as journal:
        rows = {row.id: row for row in journal.jobs()}
        assert {row.key for row in rows.values()} == {"9@500", "1@1000", "2@1400", "3@1700"}
        assert [row.id for row in rows.values() if row.ended] == ["9"]
        assert (rows["1"].preemptions, rows["1"].last_preempted) == (1, 1099.0)
        assert journal.runs("9@500") == [RunRow("9@500", 0, 510.0, 520.0, 2, "gpu01,gpu02")]
        assert journal.runs("1@1000") == [RunRow("1@1000", 0, 1005.0, 1099.0, 4, "gpu03:4")]
        assert journal.runs("2@1400") == [RunRow("2@1400", 0, 1500.0, 0.0, 4, "gpu01:4")]
        assert journal.past() == [(2, 20.0, 500.0, 1002)]


def test_the_controller_goes_on_with_it(tmp_path: Path, pending: Make, running: Make) -> None:
    anew(tmp_path, [PREEMPTED], waits_again(pending))
    with opened(tmp_path) as journal:
        ledger = Ledger(journal, SCOPE)
        ledger.apply(SlurmSnapshot(2100.0, (running(2050, restarts=1, submit_time=1099),), ()))
        assert [(run.restart, run.start, run.end) for run in ledger.runs_of(ledger.jobs["1"])] == [
            (0, 1005.0, 1099.0),
            (1, 2050.0, 0.0),
        ]


def test_a_damaged_database_is_replaced_and_kept(tmp_path: Path, pending: Make) -> None:
    with closing(Journal(tmp_path)) as journal, journal.batch():
        for number in range(2000):
            journal.save_job(JobRow(f"{number}@1", str(number), 1, 1.0))
    os.truncate(tmp_path / FILE, 20_000)
    damaged = (tmp_path / FILE).read_bytes()
    done = anew(tmp_path, [PREEMPTED], waits_again(pending))
    assert done.damage == "database disk image is malformed"
    assert Path(done.kept).read_bytes() == damaged
    assert {one.name for one in tmp_path.iterdir()} == {
        FILE,
        "leader",
        Path(done.kept).name,
        f"{Path(done.kept).name}-journal",
    }
    with opened(tmp_path) as journal:
        assert [row.key for row in journal.jobs()] == ["1@1000"]


def test_the_log_of_the_old_database_never_meets_the_new_one(tmp_path: Path, pending: Make) -> None:
    """A controller was stopped in the middle of a write, and wakes up when all is over."""
    with closing(Journal(tmp_path)) as stopped:
        with stopped.batch():
            for number in range(2000):
                stopped.save_job(JobRow(f"{number}@1", str(number), 1, 1.0))
            assert (tmp_path / f"{FILE}-journal").stat().st_size
            done = anew(tmp_path, [PREEMPTED], waits_again(pending))
            assert Path(f"{done.kept}-journal").stat().st_size
            with opened(tmp_path) as journal:
                assert [row.key for row in journal.jobs()] == ["1@1000"]
        assert len(list(stopped.jobs())) == 2000
    with opened(tmp_path) as journal:
        assert [row.key for row in journal.jobs()] == ["1@1000"]


def test_a_sound_database_keeps_what_only_it_records(tmp_path: Path, pending: Make) -> None:
    intent = Intent("1@1000", "1", 1, IntentKind.START, IntentStep.START, nodes=(("gpu01", 4),))
    with closing(Journal(tmp_path)) as journal:
        journal.save_job(
            JobRow("1@1000", "1", 1001, 1000.0, reset=1050.0, held=True, pinned=True, preemptions=7, min_nodes=2)
        )
        journal.save_run(RunRow("1@1000", 0, 1005.0, 1200.0, 4, "gpu03:4", 1.5, 0.5, 2.5, 3, 0.1))  # a wrong end
        journal.save_run(RunRow("1@1000", 5, 1300.0, 1400.0, 4, "gpu03:4"))  # never was
        journal.begin(intent)
        journal.record([Decision(1.0, "1", "start", "on gpu01:4")])
    done = anew(tmp_path, [PREEMPTED], waits_again(pending, required_nodes=("gpu01",)))
    assert (done.damage, done.held, done.pinned) == ("", (), ())
    with opened(tmp_path) as journal:
        (row,) = journal.live_jobs()
        assert row == JobRow(
            "1@1000", "1", 1001, 1000.0, reset=1050.0, held=True, pinned=True, preemptions=7, min_nodes=2, min_gpus=4, max_gpus=4
        )  # fmt: skip
        assert journal.runs("1@1000") == [RunRow("1@1000", 0, 1005.0, 1099.0, 4, "gpu03:4", 1.5, 0.5, 2.5, 3, 0.1)]
        assert [one.step for one in journal.open_intents()] == ["start"]
        assert journal.decisions("1") == [Decision(1.0, "1", "start", "on gpu01:4")]


@pytest.mark.parametrize("claim", [False, True])
def test_holds_and_pins_of_unknown_origin(tmp_path: Path, pending: Make, claim: bool) -> None:
    mine = pending(id="2", reason="JobHeldUser")
    free = pending(id="3", priority=100, reason="Priority")
    done = anew(tmp_path, [PREEMPTED], waits_again(pending, required_nodes=("gpu03",)), mine, free, claim=claim)
    assert (done.held, done.pinned) == (("1",), ("1",))
    with opened(tmp_path) as journal:
        rows = {row.id: row for row in journal.live_jobs()}
        assert [row.held for row in rows.values()] == [claim, False, False]
        assert (rows["1"].pinned, rows["1"].required) == ((True, "") if claim else (False, "gpu03"))


def test_runs_without_an_end_of_jobs_that_are_gone(tmp_path: Path) -> None:
    runaway = replace(ENDED, runs=(*ENDED.runs, AccountedRun(1, 600.0, 0.0, 2, ("gpu01",))))
    assert anew(tmp_path, [runaway]).lost == 1
    with opened(tmp_path) as journal:
        assert [run.restart for run in journal.runs("9@500")] == [0]
        assert journal.live_jobs() == []


def test_the_id_of_an_ended_job_is_another_ones_now(tmp_path: Path, pending: Make) -> None:
    anew(tmp_path, [replace(ENDED, id="1")], pending(submit_time=1800))
    with opened(tmp_path) as journal:
        assert [(row.key, row.ended) for row in journal.jobs()] == [("1@1800", False), ("1@500", True)]


def test_not_while_a_controller_runs(tmp_path: Path) -> None:
    config = Config(paths=Paths(state=tmp_path), period=1.0)
    leadership = leadership_of(config)
    assert leadership.take()
    with pytest.raises(TiresiasError, match="another controller leads"):
        anew(tmp_path, [])
    leadership.step_down()
    anew(tmp_path, [])


def test_not_from_accounting_that_counts_no_gpus(tmp_path: Path, running: Make) -> None:
    with pytest.raises(
        TiresiasError, match="accounting has no run on GPUs, though job 1 runs: set AccountingStorageTRES"
    ):
        anew(tmp_path, [], running(1500))
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("other", [{"completing": True}, {"partition": "elsewhere"}])
def test_jobs_that_end_or_are_not_managed_need_no_accounting(
    tmp_path: Path, running: Make, other: dict[str, Any]
) -> None:
    anew(tmp_path, [], replace(running(1500), **other))
    assert (tmp_path / FILE).exists()


def test_not_over_a_database_of_a_newer_version(tmp_path: Path) -> None:
    Journal(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        db.execute("update meta set value = '99' where name = 'schema'")
    with pytest.raises(StateError, match="written by a newer version"):
        anew(tmp_path, [])


# In each of many folders rebuilds a database, and dies of SIGKILL one file operation later than in the folder before.
DIES = """
import os, signal, sys
from contextlib import closing
from pathlib import Path
from tiresias.slurm_plugin.accounting.accounted_jobs import AccountedJob, AccountedRun
from tiresias.slurm_plugin.backends.interface import SlurmSnapshot
from tiresias.slurm_plugin.config import Config, Paths
from tiresias.slurm_plugin.state.journal import FILE, Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.accounting.rebuild import rebuild

def make(folder):
    with closing(Journal(folder)) as journal:
        journal.save_job(JobRow("8@1", "8", 1, 1.0, ended=True))
    if sys.argv[2] == "damaged":
        os.truncate(folder / FILE, 3000)

def run(folder, left):
    def point(event, _):
        nonlocal left
        left -= event in EVENTS
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    job = AccountedJob("9", 1002, 500.0, (AccountedRun(0, 510.0, 520.0, 2, ("gpu01",)),), 0, 0.0, True)
    sys.addaudithook(point)
    rebuild(Config(paths=Paths(state=folder)), [job], SlurmSnapshot(2000.0, (), ()))
    os._exit(0)

EVENTS = {"os.link", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "sqlite3.connect"}
for point in range(1000):
    folder = Path(sys.argv[1]) / str(point)
    folder.mkdir()
    make(folder)
    if not (child := os.fork()):
        run(folder, point)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
"""


@pytest.mark.parametrize("state", ["sound", "damaged"])
def test_a_kill_anywhere_leaves_the_old_database_or_the_new_one(tmp_path: Path, state: str) -> None:
    subprocess.run([sys.executable, "-c", DIES, str(tmp_path), state], check=True, timeout=120)
    found = []
    for folder in sorted(tmp_path.iterdir(), key=lambda one: int(one.name)):
        try:
            with opened(folder) as journal:
                found.append(sorted(row.id for row in journal.jobs()))
        except Damaged:
            found.append(["damaged"])
    old, new = (["8"], ["8", "9"]) if state == "sound" else (["damaged"], ["9"])
    assert list(tmp_path.glob("*/rebuild-*")), "what the dead left"
    anew(tmp_path / "8", [ENDED])
    assert not list((tmp_path / "8").glob("rebuild-*"))
    change = found.index(new)
    assert change > 5, "it was killed too rarely for the test"
    assert found == [old] * change + [new] * (len(found) - change)


def test_it_belongs_to_the_owner_of_the_folder() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    with TemporaryDirectory() as name:  # where others may look, too
        os.chown(name, 4711, 4712)
        anew(Path(name), [ENDED])
        made = [one.stat() for one in Path(name).rglob("*")]
        assert len(made) > 2
        assert {(one.st_uid, one.st_gid) for one in made} == {(4711, 4712)}
    assert (os.geteuid(), os.getegid()) == (0, 0)
