"""The journal keeps what was written through kill -9, and says in one line what it cannot open."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tiresias.errors import Unavailable
from tiresias.slurm_plugin import database
from tiresias.slurm_plugin.database import StateError
from tiresias.slurm_plugin.journal import Decision, History, Intent, JobRow, Journal, RunRow, epoch_of
from tiresias.slurm_plugin.leadership import Superseded


def row(key: str = "7@1000", **changes: object) -> JobRow:
    return JobRow(key=key, id=key.split("@")[0], uid=1001, submit=1000.0, **changes)  # type: ignore[arg-type]


def test_what_was_written_is_there_after_reopening(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.save_job(row(held=True, min_nodes=2))
    journal.save_run(RunRow("7@1000", 0, 1010.0, 1020.0, 4, "gpu01:4"))
    intent = Intent("7@1000", "7", 0, "start", "start", nodes=(("gpu01", 4),), began=1.0, stepped=1.0)
    journal.begin(intent)
    journal.step(intent, "confirm", 2.0)
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
from tiresias.slurm_plugin.journal import Intent, Journal
journal = Journal(Path(sys.argv[1]))
intent = Intent("7@1000", "7", 0, "preempt", "hold")
journal.begin(intent)
for number in range(10**9):
    journal.step(intent, f"step-{number}", float(number))
    print(number, flush=True)
"""


def test_a_step_that_was_reported_survives_kill_9(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", STEPS_UNTIL_KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout
    said = [writer.stdout.readline() for _ in range(200)]
    os.kill(writer.pid, signal.SIGKILL)
    said += writer.stdout.readlines()
    writer.wait()
    journal = Journal(tmp_path)  # the dead writer's locks are gone
    (intent,) = journal.open_intents()
    assert int(intent.step.removeprefix("step-")) >= int([line for line in said if line.endswith("\n")][-1])
    journal.close()


def test_who_led_before_writes_nothing_more(tmp_path: Path) -> None:
    old = Journal(tmp_path, epoch=1)
    intent = Intent("7@1000", "7", 0, "start", "start")
    old.begin(intent)
    old.save_job(row())
    new = Journal(tmp_path, epoch=2)
    writes: list[Callable[[], object]] = [
        lambda: old.save_job(row(held=True)),
        lambda: old.save_job(row("8@1000")),
        lambda: old.save_run(RunRow("7@1000", 0, 1010.0, 1020.0, 4, "gpu01:4")),
        lambda: old.begin(Intent("8@1000", "8", 0, "start", "start")),
        lambda: old.step(intent, "confirm", 2.0),
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


def test_what_a_stopped_process_keeps_locked_is_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Journal(tmp_path, epoch=1)
    with old.batch():
        old.save_job(row())
        monkeypatch.setattr(database, "PATIENCE", 0.1)
        with pytest.raises(Unavailable, match="locked by a controller"):
            Journal(tmp_path, epoch=2)
    old.save_job(row())
    old.close()
    Journal(tmp_path, epoch=2).close()


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
