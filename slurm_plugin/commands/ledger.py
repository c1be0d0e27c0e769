r"""Compare the ledger (which job ran when, on how many GPUs) with Slurm's accounting, or rebuild it from there.

`rebuild` writes a new state database from `sacct` and the queue and replaces the old one, which is kept. It needs a stopped
controller, slurmdbd, and AccountingStorageTRES=gres/gpu in slurm.conf, without which no GPUs are accounted. It reports what
cannot be recovered. A hold of an administrator stays, unless the old database records it as the controller's, or --claim is
given. Run it as the controller's user, or as root.

DUMP is what this prints, where sacct itself cannot be run:
  SLURM_TIME_FORMAT=%s sacct --duplicates --allusers --allocations --parsable2 --starttime 2026-01-01 \\
    --format JobID,UID,User,Account,Partition,Reservation,Submit,Start,End,State,AllocTRES,NodeList,Restarts
Before Slurm 24.05 leave out Restarts.

examples:
  tiresias ledger check                        the last 7 days; exit code 1 where they differ
  tiresias ledger check --since 2026-11-01 --json
  tiresias ledger rebuild                      as far back as state.keep_days
  tiresias ledger rebuild --claim              treat holds of unknown origin as the controller's; lift and use them
"""

from __future__ import annotations

import argparse
import sqlite3
import time
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from tiresias.durable.database import Damaged, StateError
from tiresias.errors import UsageError
from tiresias.slurm_plugin.accounting import sacct
from tiresias.slurm_plugin.accounting.accounted_jobs import AccountedJob, jobs, rows
from tiresias.slurm_plugin.accounting.audit import Audit, audit
from tiresias.slurm_plugin.accounting.rebuild import Rebuilt, rebuild
from tiresias.slurm_plugin.backends.select import open_backend
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.commands.terminal import moment, print_json
from tiresias.slurm_plugin.config import Config, load_config
from tiresias.slurm_plugin.state.journal import FILE
from tiresias.slurm_plugin.state.journal_history import History

DAY_S = 86400.0
CHECKED_DAYS = 7
MAX_SHOWN = 20  # differences or job ids in text; --json has all
CALL_TIMEOUT_S = 60.0  # of one call to slurmctld


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands and their options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="check|rebuild")
    check = actions.add_parser("check", help="compare; exit code 1 where they differ")
    rebuilding = actions.add_parser("rebuild", help="write a new state database; the old one is kept")
    rebuilding.add_argument(
        "--claim", action="store_true", help="holds and node lists of unknown origin are the controller's"
    )
    for action in (check, rebuilding):
        action.add_argument("--config", type=Path, metavar="FILE", help="default: /etc/tiresias/tiresias.toml")
        action.add_argument(
            "--from", dest="dump", type=Path, metavar="DUMP", help="output of sacct, instead of running it"
        )
        action.add_argument(
            "--since", type=moment, metavar="DATE", help="such as 2026-11-01; runs before it are left out"
        )
        action.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    config = load_config(args.config, {})
    return _check(args, config) if args.action == "check" else _rebuild(args, config)


def _check(args: argparse.Namespace, config: Config) -> int:
    since = args.since or time.time() - CHECKED_DAYS * DAY_S
    file = Path(config.paths.state) / FILE
    accounted = _accounted(args.dump, since, [], config)
    try:
        with closing(History.of(file)) as history:
            found = audit(history.runs_since(since), accounted, since, time.time())
    except sqlite3.OperationalError as error:
        raise StateError(
            f"state database {file}: {error}; is paths.state the controller's, and may you read it?"
        ) from None
    except sqlite3.DatabaseError as error:
        raise Damaged(file, str(error)) from None
    if args.json:
        print_json({"since": since, **asdict(found)})
    else:
        _show(found)
    return 1 if found.differences else 0


def _rebuild(args: argparse.Namespace, config: Config) -> int:
    backend = open_backend(config.backend, CALL_TIMEOUT_S)
    try:
        snapshot = backend.snapshot()  # first: the controller closes runs that end meanwhile in its first cycle
    finally:
        backend.close()
    ids = [job.id for job in snapshot.jobs if job.gpus and not job.het_id]
    kept = config.state.keep_days * DAY_S
    since = args.since or (time.time() - kept if kept else 1.0)
    accounted = _accounted(args.dump, since, ids, config)
    done = rebuild(config, accounted, snapshot, args.claim)
    if args.json:
        print_json(asdict(done))
    else:
        print("\n".join(_report(done, args.claim)))
    return 0


def _accounted(dump: Path | None, since: float, ids: list[str], config: Config) -> list[AccountedJob]:
    if dump is None:
        return sacct.accounted(since, ids, Scope.of(config))
    try:
        with dump.open(errors="replace") as lines:
            return jobs(rows(lines, str(dump)), Scope.of(config))
    except OSError as error:
        raise UsageError(f"{dump}: {error.strerror}; give a file with the output of sacct") from None


def _show(found: Audit) -> None:
    print(f"runs in both: {found.runs}; their lengths differ by {found.largest:g} s at most")
    for one in found.differences[:MAX_SHOWN]:
        print(
            f"job {one.job}, restart {one.restart}: {one.what}: journal {_run(one.journal)}, accounting {_run(one.accounting)}"
        )
    if len(found.differences) > MAX_SHOWN:
        print(f"{len(found.differences) - MAX_SHOWN} more; --json lists all")


def _run(run: tuple[float, float, int] | None) -> str:
    if run is None:
        return "-"
    start, end, gpus = run
    return f"{_when(start)} to {_when(end) if end else 'now'} on {gpus} GPUs"


def _when(moment: float) -> str:
    return datetime.fromtimestamp(moment).isoformat(sep=" ", timespec="seconds")


def _report(done: Rebuilt, claimed: bool) -> list[str]:
    lines = [f"rebuilt: {done.jobs} jobs with {done.runs} runs from accounting, {done.live} of the jobs not ended"]
    if done.kept:
        lines.append(f"the old database is {done.kept}")
    if done.damage:
        lines.append(
            f"the old database is unreadable ({done.damage}): promotions, measured costs, decisions and the "
            "switches of `tiresias pause` and `stop` are lost, and each job's requeues count as preemptions"
        )
    if done.lost:
        lines.append(
            f"{done.lost} runs have no end in accounting and no job in the queue: left out (sacctmgr show runawayjobs)"
        )
    holds = (
        "treated as the controller's"
        if claimed
        else "left to administrators; --claim takes them, scontrol release lifts one"
    )
    if done.held:
        lines.append(f"held by an administrator or the controller: {_ids(done.held)}: {holds}")
    if done.pinned:
        lines.append(
            f"bound to nodes by their owner or the controller: {_ids(done.pinned)}: "
            f"{'treated as the controller' if claimed else 'left to their owners; --claim takes them'}"
        )
    return lines


def _ids(ids: tuple[str, ...]) -> str:
    more = f" and {len(ids) - MAX_SHOWN} more" if len(ids) > MAX_SHOWN else ""
    return f"job{'s' if len(ids) > 1 else ''} {', '.join(ids[:MAX_SHOWN])}{more}"
