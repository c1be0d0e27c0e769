"""Databases of every earlier version open with all that is in them, whenever an upgrade is killed."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tiresias.durable.database import StateError
from tiresias.slurm_plugin.state import job_reasons, schema
from tiresias.slurm_plugin.state.journal import FILE, Journal, epoch_of
from tiresias.slurm_plugin.state.schema import SCHEMA, UPGRADES

SCHEMAS = Path(__file__).parent / "schemas"
EARLIER = range(1, SCHEMA)
RECODED = ("unmovable", "unpinnable")  # sentences up to schema 8, codes from 9 on
Content = dict[str, list[dict[str, Any]]]


def make(number: int, file: Path) -> None:
    """A database that a version with this schema left."""
    with closing(sqlite3.connect(file)) as db:
        db.execute("pragma journal_mode = wal")
        db.executescript((SCHEMAS / f"{number}.sql").read_text())


def opened(folder: Path) -> Journal:
    """Open the journal with the epoch of the last leader."""
    return Journal(folder, epoch_of(folder))


def content(file: Path) -> Content:
    with closing(sqlite3.connect(file)) as db:
        db.row_factory = sqlite3.Row
        names = [row[0] for row in db.execute("select name from sqlite_master where type = 'table'")]
        return {name: [dict(row) for row in db.execute(f"select * from {name}")] for name in names}


def columns(file: Path) -> dict[str, set[tuple[str, str]]]:
    with closing(sqlite3.connect(file)) as db:
        names = [row[0] for row in db.execute("select name from sqlite_master where type = 'table'")]
        return {name: {(row[1], row[2]) for row in db.execute(f"pragma table_info({name})")} for name in names}


def is_all_there(old: Content, new: Content) -> bool:
    """Every row of before, in order, with every column that it had; those in RECODED with their words or their code."""
    del old["meta"]
    for before, after in zip(old["job"], new["job"], strict=True):
        for column in set(RECODED) & before.keys():
            reason = before.pop(column)
            if reason not in after[column] or (bool(reason) != bool(after[column])):
                return False
    return all(
        len(rows) == len(new[table])
        and all(one.items() <= two.items() for one, two in zip(rows, new[table], strict=True))
        for table, rows in old.items()
    )


def test_each_schema_is_kept_and_leads_to_the_next() -> None:
    assert {int(file.stem) for file in SCHEMAS.glob("*.sql")} == set(range(1, SCHEMA + 1))
    assert set(UPGRADES) == set(EARLIER)


@pytest.mark.parametrize("number", range(1, SCHEMA + 1))
def test_every_schema_opens_with_all_its_data(tmp_path: Path, number: int) -> None:
    file = tmp_path / FILE
    make(number, file)
    old = content(file)
    journal = opened(tmp_path)
    assert [one.key for one in journal.live_jobs()] == ["12_3@1100", "7@1000"]
    assert [one.step for one in journal.open_intents()] == ["wait"]
    assert [(run.start, run.end, run.gpus) for run in journal.runs("7@1000")] == [(1010, 1020, 4), (1030, 0, 4)]
    journal.close()
    assert is_all_there(old, content(file))
    Journal(tmp_path / "fresh").close()
    assert columns(file) == columns(tmp_path / "fresh" / FILE)


SENTENCES = [
    ("unmovable", "", ""),
    ("unmovable", "did not save within 20 s of the signal", "not_saved: 20"),
    ("unmovable", "did not save within 0.5 s of the signal", "not_saved: 0.5"),
    ("unmovable", "Slurm refused its preemption: job 1: Denied", "preemption_refused: job 1: Denied"),
    ("unmovable", "job 1: only batch jobs", "earlier_version: job 1: only batch jobs"),
    ("unpinnable", "", ""),
    ("unpinnable", "every pin to nodes changes its request: cpus 1 to 7", "pins_change_request: cpus 1 to 7"),
    ("unpinnable", "Slurm refused 3 starts: BadConstraints", "impossible_starts: 3 BadConstraints"),
    ("unpinnable", "it requests fewer GPUs (1) than nodes (2)", "fewer_gpus_than_nodes: 1 2"),
    ("unpinnable", "it's unknown: %", "earlier_version: it's unknown: %"),
]


@pytest.mark.parametrize(("column", "sentence", "code"), SENTENCES)
def test_sentences_become_codes_that_read_as_before(tmp_path: Path, column: str, sentence: str, code: str) -> None:
    make(8, tmp_path / FILE)
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        db.execute(f"update job set {column} = ? where key = '7@1000'", (sentence,))
    journal = opened(tmp_path)
    found = getattr(journal.job("7"), column)
    journal.close()
    assert found == code
    assert job_reasons.text(found) == sentence


def test_a_row_of_an_earlier_version_has_neutral_values(tmp_path: Path) -> None:
    make(8, tmp_path / FILE)
    journal = opened(tmp_path)
    for row in journal.jobs():
        assert (row.virtual_cluster, row.priority_class, row.min_gpus, row.max_gpus, row.progress) == (
            "",
            0,
            0,
            0,
            None,
        )
    journal.close()


def test_a_row_of_this_version_is_read_as_it_was_written(tmp_path: Path) -> None:
    make(SCHEMA, tmp_path / FILE)
    journal = opened(tmp_path)
    found = {row.key: row for row in journal.jobs()}
    journal.close()
    one, array_task = found["7@1000"], found["12_3@1100"]
    assert (one.priority_class, one.min_gpus, one.max_gpus, one.progress) == (3, 4, 4, 250.0)
    assert (array_task.virtual_cluster, array_task.min_gpus, array_task.max_gpus) == ("research", 2, 8)
    assert (one.opportunistic, array_task.opportunistic) == ("restart", "saves")


@pytest.mark.parametrize("number", EARLIER)
def test_an_upgrade_leaves_a_backup(tmp_path: Path, number: int) -> None:
    make(number, tmp_path / FILE)
    old = content(tmp_path / FILE)
    opened(tmp_path).close()
    backup = tmp_path / f"journal.schema-{number}.sqlite"
    assert content(backup) == old
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([FILE, f"{FILE}-journal", backup.name])


def test_old_backups_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(SCHEMA - 1, tmp_path / FILE)
    names = [f"journal.schema-{name}.sqlite" for name in (1, "mine", SCHEMA - 1)]
    (tmp_path / names[0]).write_text("")
    (tmp_path / names[1]).write_text("")
    monkeypatch.setattr(schema, "KEPT_BACKUPS", 1)
    opened(tmp_path).close()
    assert {one.name for one in tmp_path.glob("journal.schema-*")} == set(names[1:])


# For each line "N FOLDER": opens the journal there in a process of its own, which counts each SQL statement and each file that is
# opened, renamed or removed, and dies of SIGKILL before number N. Prints how that process ended.
DIES = """
import os, signal, sqlite3, sys
from pathlib import Path
from tiresias.slurm_plugin.state.journal import Journal, epoch_of

def point(*_):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

def traced(*args, **options):
    db = connect(*args, **options)
    db.set_trace_callback(point)
    return db

connect, sqlite3.connect = sqlite3.connect, traced
events = {"open", "os.rename", "os.remove", "sqlite3.connect"}
for line in sys.stdin:
    number, _, name = line.rstrip("\\n").partition(" ")
    left, folder = int(number), Path(name)
    child = os.fork()
    if not child:
        sys.addaudithook(lambda event, args: point() if event in events else None)
        Journal(folder, epoch_of(folder)).close()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def killed_everywhere(folders: Iterable[Path]) -> Iterable[Path]:
    """Each folder after a SIGKILL one point later than in the folder before; ends with the first that was not killed."""
    command = [sys.executable, "-c", DIES]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as dying:
        assert dying.stdin
        assert dying.stdout
        for number, folder in enumerate(folders):
            dying.stdin.write(f"{number} {folder}\n")
            dying.stdin.flush()
            code = int(dying.stdout.readline())
            assert code in (0, -signal.SIGKILL)
            yield folder
            if code == 0:
                break
        dying.stdin.close()


@pytest.mark.parametrize("number", [*(pytest.param(one, marks=pytest.mark.long) for one in EARLIER[1:]), EARLIER[0]])
def test_a_kill_anywhere_in_an_upgrade_loses_nothing(tmp_path: Path, number: int) -> None:
    def folders() -> Iterable[Path]:
        for point in range(1000):
            folder = tmp_path / str(point)
            folder.mkdir()
            make(number, folder / FILE)
            yield folder

    make(number, tmp_path / "old")
    points = 0
    for folder in killed_everywhere(folders()):
        points += 1
        assert is_all_there(content(tmp_path / "old"), content(folder / FILE)), folder
        backup = folder / f"journal.schema-{number}.sqlite"
        assert not backup.exists() or content(backup) == content(tmp_path / "old"), folder
        opened(folder).close()
        assert is_all_there(content(tmp_path / "old"), content(folder / FILE)), folder
        assert {"name": "schema", "value": str(SCHEMA)} in content(folder / FILE)["meta"]
    assert points > 10, "it was not killed often enough for a result"


def test_a_kill_anywhere_while_it_is_made_leaves_what_can_be_opened(tmp_path: Path) -> None:
    points = 0
    for folder in killed_everywhere(tmp_path / str(number) for number in range(1000)):
        points += 1
        journal = Journal(folder)
        assert journal.live_jobs() == []
        journal.close()
    assert points > 10, "it was not killed often enough for a result"


def test_a_database_from_a_newer_version_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        db.execute("update meta set value = '99' where name = 'schema'")
    before = content(tmp_path / FILE)
    with pytest.raises(StateError, match=r"newer version \(schema 99") as caught:
        Journal(tmp_path)
    assert "\n" not in str(caught.value)
    assert content(tmp_path / FILE) == before


@pytest.mark.parametrize("statement", ["create table other (x)", "create table meta (name, value)"])
def test_a_database_of_another_program_is_refused(tmp_path: Path, statement: str) -> None:
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        db.execute(statement)
    with pytest.raises(StateError, match="it has no schema number"):
        Journal(tmp_path)
