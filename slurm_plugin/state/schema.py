"""The tables of the state database, and the upgrade from each earlier schema to the next.

A schema that a release had does not change any more. A new one has a new number, the statements that lead to it in UPGRADES, and
the same columns in TABLES. tests/slurm_plugin/state/schemas/ keeps each earlier one as it was made then.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from tiresias.durable.database import Damaged, Database, StateError, copy, open_database
from tiresias.slurm_plugin.state.job_reasons import SENTENCES_TO_CODES

SCHEMA = 20
KEPT_BACKUPS = 2  # databases as they were before an upgrade

# What mode shadow saw (watched.py). Its views are also for code that must not import this: simulator/formats/shadow_journal.py.
SHADOW = (
    """create table watch (
  began real primary key, until real, gpus integer, busy real, movable real, agreed real, idle real, taken real, sooner integer,
  preempted integer
) without rowid""",
    """create table would (
  key text, restart integer, action text, began real, watch real, until real, gpus integer, nodes text, beneficiary text,
  primary key (key, restart, action, began)
) without rowid""",
    # The only row; none where mode shadow never ran. `gpus` of the newest watch: SQLite takes it from the row of the one max.
    """create view watched as select
  (select min(began) from watch) as began, max(until) as until, gpus, sum(until - began) as seconds,
  sum((until - began) * gpus) as gpu_seconds, sum(busy) as busy, sum(movable) as movable, sum(agreed) as agreed, sum(idle) as idle,
  sum(taken) as taken, sum(sooner) as sooner, sum(preempted) as preempted
from watch group by null""",
    # The jobs that were there meanwhile, as if what still lived at the end of the watch had ended then. service: seconds of all
    # runs; gpus and service are empty of a job that did not run yet.
    """create view watched_job as select
  id as job_id, uid, submit, max(run.gpus) as gpus, sum(min(coalesce(nullif(end, 0), until), until) - start) as service,
  case when ended = 1 then min(max(end), until) else until end as finish
from watched join job on submit < until left join run on run.key = job.key and start < until
group by job.key having ended = 0 or max(end) >= began""",
    # The runs that would have been different. won: seconds by which it would have started before Slurm started it, empty where
    # it would not; lost: seconds during which it would not have had its GPUs.
    """create view watched_run as select
  id as job_id, uid, would.restart as restart, max(would.gpus) as gpus,
  max(coalesce(start, max(coalesce(would.until, watch.until))) - min(iif(action = 'preempt', null, would.began)), 0) as won,
  sum(iif(action = 'preempt', coalesce(would.until, watch.until) - would.began, 0)) as lost
from would join watch on watch.began = would.watch join job on job.key = would.key
left join run on run.key = would.key and run.restart = would.restart group by would.key, would.restart""",
)
LOSSES = """create table loss (
  key text, step real, loss real, reports integer, primary key (key, step)
) without rowid"""
TABLES = (
    "create table meta (name text primary key, value text) without rowid",
    """create table job (
  key text primary key, id text, uid integer, submit real, reset real, held integer, pinned integer, preemptions integer,
  last_preempted real, failures integer, not_before real, unmovable text, min_nodes integer, max_nodes integer, required text,
  kind text, ended integer, over real, excluded text, pin text, asked text, unpinnable text,
  virtual_cluster text, priority_class integer, min_gpus integer, max_gpus integer, progress real,
  total_steps real, claim_at real, claim_left real, earliest_at real, earliest_left real, opportunistic text,
  elastic text, rigid text, converges text,
  slow_nodes text, slow_until real, failed_nodes text, failed_until real
) without rowid""",
    "create index live on job (ended, id)",
    "create index by_id on job (id)",
    "create index by_end on job (over, key)",
    "create index by_owner on job (uid, over, key)",
    """create table run (
  key text, restart integer, start real, end real, gpus integer, nodes text, restore real, save real, pause real, redone integer,
  pace real, cells text, lost real, timed real, samples real, expected real, servers integer,
  ended_as text, account text,
  primary key (key, restart)
) without rowid""",
    LOSSES,
    """create table intent (
  seq integer primary key, key text, id text, restart integer, kind text, step text, nodes text, beneficiary text,
  began real, stepped real, outcome text, epoch integer, cells text, parts text, servers integer
)""",
    "create index unfinished on intent (outcome) where outcome = ''",
    "create index moves on intent (key)",
    "create table decision (seq integer primary key, time real, id text, action text, why text)",
    "create index by_job on decision (id, seq)",
    *SHADOW,
)
UPGRADES = {  # what leads from a schema to the next one
    1: (
        "alter table run add column restore real",
        "alter table run add column save real",
        "alter table run add column pause real",
        "alter table run add column redone integer",
    ),
    2: ("alter table job add column kind text default ''", "alter table run add column pace real"),
    3: ("alter table intent add column epoch integer default 0",),
    4: (
        "alter table job add column over real default 0",
        "update job set over = max(submit, coalesce((select max(end) from run where run.key = job.key), 0)) where ended = 1",
        "create index by_id on job (id)",
        "create index by_end on job (over, key)",
        "create index moves on intent (key)",
    ),
    5: SHADOW,
    6: (
        "alter table job add column excluded text default ''",
        "alter table job add column pin text default ''",
        "alter table job add column asked text default ''",
        "alter table job add column unpinnable text default ''",
    ),
    7: ("create index by_owner on job (uid, over, key)",),
    8: (
        "alter table job add column virtual_cluster text default ''",
        "alter table job add column priority_class integer default 0",
        "alter table job add column min_gpus integer default 0",
        "alter table job add column max_gpus integer default 0",
        "alter table job add column progress real",
        *SENTENCES_TO_CODES,
    ),
    9: (
        "alter table job add column total_steps real",
        "alter table job add column claim_at real",
        "alter table job add column claim_left real",
        "alter table job add column earliest_at real",
        "alter table job add column earliest_left real",
    ),
    10: (
        "alter table run add column cells text default ''",
        "alter table intent add column cells text default ''",
    ),
    11: ("alter table job add column opportunistic text default ''", "alter table run add column lost real"),
    12: ("alter table intent add column parts text default '[]'",),
    13: ("alter table job add column elastic text default ''",),
    14: ("alter table job add column rigid text default ''",),
    15: (
        "alter table job add column converges text default ''",
        "alter table run add column timed real",
        "alter table run add column samples real",
        "alter table run add column expected real",
        LOSSES,
    ),
    16: (
        "alter table run add column servers integer default 0",
        "alter table intent add column servers integer default 0",
    ),
    17: (
        "alter table job add column slow_nodes text default ''",
        "alter table job add column slow_until real default 0",
        "alter table job add column failed_nodes text default ''",
        "alter table job add column failed_until real default 0",
    ),
    18: ("alter table run add column ended_as text default ''",),
    19: ("alter table run add column account text default ''",),
}


def open_current(path: Path) -> Database:
    """Return the database there with the present tables: created, checked and upgraded where needed. Raises StateError."""
    db = open_database(path)
    try:
        _prepare(db)
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: Database) -> None:
    if not db.execute("select 1 from sqlite_master").fetchone():
        _change(db, [*TABLES, f"insert into meta values ('schema', '{SCHEMA}')"])
        return
    if (problem := db.execute("pragma quick_check(1)").fetchone()[0]) != "ok":
        raise Damaged(db.path, problem.splitlines()[0])
    found = _schema(db)
    if found > SCHEMA:
        raise StateError(
            f"state database {db.path}: written by a newer version (schema {found}, this version reads {SCHEMA}); upgrade first"
        )
    if found < SCHEMA:
        _upgrade(db, found)


def _schema(db: Database) -> int:
    try:
        return int(db.execute("select value from meta where name = 'schema'").fetchone()[0])
    except (sqlite3.Error, StateError, TypeError, ValueError):
        raise Damaged(db.path, "it has no schema number") from None


def _upgrade(db: Database, found: int) -> None:
    copy(db, db.path.with_name(f"journal.schema-{found}.sqlite"))
    for _, older in sorted(_backups(db.path.parent))[:-KEPT_BACKUPS]:
        older.unlink()
    steps = [statement for schema in range(found, SCHEMA) for statement in UPGRADES[schema]]
    _change(db, [*steps, f"update meta set value = '{SCHEMA}' where name = 'schema'"])


def _change(db: Database, statements: Iterable[str]) -> None:
    """Execute all statements or none: after a crash, what was not committed is not there."""
    with db.transaction():
        for statement in statements:
            db.execute(statement)


def _backups(folder: Path) -> list[tuple[int, Path]]:
    """The backups, with the numbers of their schemas."""
    found = [(re.fullmatch(r"journal\.schema-(\d+)\.sqlite", file.name), file) for file in folder.iterdir()]
    return [(int(name[1]), file) for name, file in found if name]
