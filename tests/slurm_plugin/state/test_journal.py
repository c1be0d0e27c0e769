"""The journal keeps what was written through kill -9, and reports in one line what it cannot open."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tiresias.durable import database
from tiresias.durable.database import Damaged, StateError, Unwritable
from tiresias.durable.leadership import Superseded
from tiresias.errors import Unavailable
from tiresias.slurm_plugin.state import journal as journal_module
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.journal import Journal, epoch_of
from tiresias.slurm_plugin.state.journal_history import History
from tiresias.slurm_plugin.state.journal_rows import Decision, JobRow, RunRow


def row(key: str = "7@1000", **changes: object) -> JobRow:
    return JobRow(key=key, id=key.split("@")[0], uid=1001, submit=1000.0, **changes)  # type: ignore[arg-type]


def test_what_was_written_is_there_after_reopening(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.save_job(row(held=True, min_nodes=2))
    journal.save_run(RunRow("7@1000", 0, 1010.0, 1020.0, 4, "gpu01:4"))
    intent = Intent("7@1000", "7", 0, IntentKind.START, IntentStep.START, nodes=(("gpu01", 4),), began=1.0, stepped=1.0)
    journal.begin(intent)
    journal.step(intent, IntentStep.CONFIRM, 2.0)
    journal.record([Decision(1.0, "7", "start", "on gpu01:4")])
    journal.close()

    again = Journal(tmp_path)
    assert again.live_jobs() == [row(held=True, min_nodes=2)]
    assert again.live_runs() == again.runs("7@1000") == [RunRow("7@1000", 0, 1010.0, 1020.0, 4, "gpu01:4")]
    (found,) = again.open_intents()
    assert (found.step, found.stepped, found.nodes) == ("confirm", 2.0, (("gpu01", 4),))
    assert again.decisions("7") == [Decision(1.0, "7", "start", "on gpu01:4")]
    again.finish(found, "running")
    assert again.open_intents() == []
    again.close()


def test_a_batch_is_all_or_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path)

    def interrupted() -> None:
        with journal.batch():
            journal.save_job(row())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert journal.live_jobs() == []
    journal.close()


def test_collected_writes_are_on_the_disk_with_the_next_sync(tmp_path: Path) -> None:
    journal, viewer = Journal(tmp_path), Journal(tmp_path)
    with journal.collected():
        journal.save_job(row())
        assert [one.key for one in journal.live_jobs()] == ["7@1000"]
        assert viewer.live_jobs() == []
        journal.sync()
        assert [one.key for one in viewer.live_jobs()] == ["7@1000"]
        journal.note("late-1001-", "1.0")
        assert not viewer.late()
    assert viewer.late() == {(1001, ""): 1.0}
    journal.note("late-1002-", "1.0")  # no more is collected
    assert len(viewer.late()) == 2
    journal.close()
    viewer.close()


def test_what_was_collected_before_a_failure_is_kept_but_for_the_batch_that_failed(tmp_path: Path) -> None:
    journal = Journal(tmp_path)

    def failing() -> None:
        with journal.collected():
            journal.save_job(row("6@1000"))
            with contextlib.suppress(ZeroDivisionError), journal.batch():
                journal.save_job(row("7@1000"))
                raise ZeroDivisionError
            with journal.batch():
                journal.save_job(row("8@1000"))
            raise Unavailable("slurmctld does not answer")

    with pytest.raises(Unavailable):
        failing()
    again = Journal(tmp_path)
    assert [one.key for one in again.live_jobs()] == ["6@1000", "8@1000"]
    journal.close()
    again.close()


def test_a_process_that_ends_does_not_commit_what_it_collected(tmp_path: Path) -> None:
    journal = Journal(tmp_path)

    def interrupted() -> None:
        with journal.collected():
            journal.save_job(row())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    journal.save_job(row("8@1000"))
    assert [one.key for one in journal.live_jobs()] == ["8@1000"]
    journal.close()


def test_a_controller_that_is_killed_loses_what_it_collected_and_no_more(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from tiresias.slurm_plugin.state.journal import Journal
journal = Journal(Path(sys.argv[1]))
with journal.collected():
    journal.note("late-1-", "1.0")
    journal.sync()
    journal.note("late-2-", "1.0")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)])
    assert done.returncode == -signal.SIGKILL
    again = Journal(tmp_path)
    assert again.late() == {(1, ""): 1.0}
    again.close()


def test_the_newest_bearer_of_an_id_is_found(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.save_job(row("7@1000", ended=True))
    journal.save_job(row("7@5000"))
    assert History.of(journal.path).job("7") == row("7@5000")
    assert [one.key for one in journal.live_jobs()] == ["7@5000"]
    journal.close()


STEPS_UNTIL_KILLED = """
import sys
from pathlib import Path
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.journal import Journal
journal = Journal(Path(sys.argv[1]))
intent = Intent("7@1000", "7", 0, IntentKind.PREEMPT, IntentStep.HOLD)
journal.begin(intent)
for number in range(10**9):
    journal.step(intent, IntentStep.WAIT, float(number))
    print(number, flush=True)
"""


def test_a_step_that_was_reported_survives_kill_9(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", STEPS_UNTIL_KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout
    output = [writer.stdout.readline() for _ in range(200)]
    os.kill(writer.pid, signal.SIGKILL)
    output += writer.stdout.readlines()
    writer.wait()
    journal = Journal(tmp_path)  # the dead writer's locks are gone
    (intent,) = journal.open_intents()
    assert intent.stepped >= int([line for line in output if line.endswith("\n")][-1])
    journal.close()


@pytest.mark.parametrize("column", ["kind", "step"])
def test_an_unknown_word_is_reported_in_one_line(journal: Journal, column: str) -> None:
    journal.begin(Intent("7@1000", "7", 0, IntentKind.PREEMPT, IntentStep.HOLD))
    with sqlite3.connect(journal.path) as db:
        db.execute(f"update intent set {column} = 'dance'")
    db.close()
    with pytest.raises(Damaged, match="intent 1: 'dance' is not a valid Intent") as caught:
        journal.open_intents()
    assert "\n" not in str(caught.value)


def test_an_earlier_leader_writes_nothing_more(tmp_path: Path) -> None:
    old = Journal(tmp_path, epoch=1)
    intent = Intent("7@1000", "7", 0, IntentKind.START, IntentStep.START)
    old.begin(intent)
    old.save_job(row())
    new = Journal(tmp_path, epoch=2)
    writes: list[Callable[[], object]] = [
        lambda: old.save_job(row(held=True)),
        lambda: old.save_job(row("8@1000")),
        lambda: old.save_run(RunRow("7@1000", 0, 1010.0, 1020.0, 4, "gpu01:4")),
        lambda: old.begin(Intent("8@1000", "8", 0, IntentKind.START, IntentStep.START)),
        lambda: old.step(intent, IntentStep.CONFIRM, 2.0),
        lambda: old.finish(intent, "running"),
        lambda: old.record([Decision(1.0, "7", "start", "on gpu01:4")]),
        old.check,
    ]
    for write in writes:
        with pytest.raises(Superseded):
            write()
        with pytest.raises(Superseded), old.batch():
            write()
    new.check()
    assert (new.live_jobs(), new.live_runs(), new.decisions()) == ([row()], [], [])
    (found,) = new.open_intents()
    assert (found.step, found.epoch, epoch_of(tmp_path)) == ("start", 1, 2)
    new.save_job(row(held=True))
    old.close()
    with pytest.raises(Superseded):
        Journal(tmp_path, epoch=1)
    new.close()


STOPPED_IN_A_WRITE = """
import os, signal, sys
from pathlib import Path
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.durable.leadership import Superseded
journal = Journal(Path(sys.argv[1]), epoch=1)
journal._db.execute("pragma cache_size = 1")  # so that it writes into the file before it commits
journal.save_job(JobRow("before@1", "before", 1001, 1.0))
with journal.batch():
    for number in range(3000):
        journal.save_job(JobRow(f"{number}@1", f"{number}", 1001, 1.0))
    print("stops", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
try:
    journal.check()
except Superseded:
    print("superseded", flush=True)
"""


def test_the_journal_is_taken_from_a_leader_that_was_stopped_in_the_middle_of_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "TRANSACTION_TIMEOUT_S", 0.1)
    words = [sys.executable, "-c", STOPPED_IN_A_WRITE, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as old:
        assert old.stdout
        assert old.stdout.readline() == "stops\n"
        while Path(f"/proc/{old.pid}/stat").read_text().split()[2] != "T":
            time.sleep(0.01)
        with pytest.raises(Unavailable, match="locked by a controller"):
            Journal(tmp_path)
        new = Journal(tmp_path, epoch=2)
        assert [one.id for one in new.live_jobs()] == ["before"]
        new.save_job(row())
        old.send_signal(signal.SIGCONT)
        assert old.stdout.readline() == "superseded\n"
    new.check()
    assert [one.id for one in new.live_jobs()] == ["7", "before"]
    new.close()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["journal.sqlite", "journal.sqlite-journal"]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match=r"state folder .*file/state: .*; make it writable"):
        Journal(tmp_path / "file" / "state")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_database_cut_in_half(tmp_path: Path, share: float) -> None:
    journal = Journal(tmp_path)
    with journal.batch():
        for number in range(2000):
            journal.save_job(row(f"{number}@1000"))
    journal.close()
    path = tmp_path / "journal.sqlite"
    os.truncate(path, int(path.stat().st_size * share))
    with pytest.raises(StateError, match="`tiresias ledger rebuild` makes it anew") as caught:
        Journal(tmp_path)
    assert "\n" not in str(caught.value)


def test_something_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_bytes(b"hello" * 1000)
    with pytest.raises(StateError, match="not a database"):
        Journal(tmp_path)


def test_ended_jobs_are_forgotten_in_time_and_live_ones_never(tmp_path: Path) -> None:
    with closing(Journal(tmp_path)) as journal:
        for number, (ended, end) in enumerate([(True, 1500.0), (True, 2500.0), (False, 1500.0), (True, 0.0)]):
            journal.save_job(row(f"{number}@1000", ended=ended))
            if end:
                journal.save_run(RunRow(f"{number}@1000", 0, 1010.0, end, 4, "gpu01:4"))
        journal.save_job(replace(row("4@3000", ended=True), submit=3000.0))
        assert journal.prune(2000.0) == 2
        assert [one.key for one in journal.jobs()] == ["1@1000", "2@1000", "4@3000"]
        assert [run.key for _, run in journal.runs_since(0.0)] == ["1@1000", "2@1000"]
        assert journal.prune(2000.0) == 0


def test_steps_that_are_over_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "KEPT_INTENTS", 3)
    with closing(Journal(tmp_path)) as journal:
        for number in range(10):
            intent = Intent("7@1000", "7", number, IntentKind.START, IntentStep.START)
            journal.begin(intent)
            if number:
                journal.finish(intent, "running")
        journal.prune(0.0)
        assert [one.restart for one in journal.open_intents()] == [0]
        (count,) = sqlite3.connect(journal.path).execute("select count(*) from intent").fetchone()
        assert count == 4


def test_what_a_full_disk_refuses_is_not_there_and_the_next_write_is(tmp_path: Path) -> None:
    def many() -> None:
        with journal.batch():
            for number in range(1000):
                journal.save_job(row(f"{number}@2000"))

    with closing(Journal(tmp_path)) as journal:
        journal.save_job(row("1@1000"))
        pages = journal._db.execute("pragma page_count").fetchone()[0]
        journal._db.execute(f"pragma max_page_count = {pages}")
        with pytest.raises(Unwritable, match=r"journal.sqlite: database or disk is full; free space in"):
            many()
        assert [one.key for one in journal.jobs()] == ["1@1000"]
        journal._db.execute("pragma max_page_count = 1000000")
        many()
        assert len(list(journal.jobs())) == 1001
