"""Look at a folder of checkpoints: list, verify, prune; and at those of all jobs that have ended.

examples:
  tiresias checkpoint ls /shared/tiresias/checkpoints/123
  tiresias checkpoint verify /shared/tiresias/checkpoints/123       every byte of every checkpoint; exit code 1 when one is damaged
  tiresias checkpoint prune --keep 3 --keep-every 10000 --dry-run /shared/tiresias/checkpoints/123
  tiresias checkpoint gc --days 30 --quota 500 --dry-run /shared/tiresias/checkpoints
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from tiresias.checkpoint.gc import gc_command
from tiresias.checkpoint.retention import KEEP, KeepEvery, KeepLast, RetentionPolicy
from tiresias.checkpoint.size_text import size_text
from tiresias.checkpoint.store import Store
from tiresias.errors import CorruptCheckpoint, UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("action", choices=("ls", "verify", "prune", "gc"))
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="a job's checkpoint folder; gc: the folder of all jobs' folders"
    )
    parser.add_argument(
        "--keep",
        type=int,
        help=f"prune: how many newest ones stay, at least {KEEP} (default); gc: how many of each job (default: all, until --days)",
    )
    parser.add_argument(
        "--keep-every", type=int, metavar="STEPS", help="prune: the first at or after each multiple stays too"
    )
    parser.add_argument("--dry-run", action="store_true", help="prune, gc: list what would be removed, remove nothing")
    gc_command.configure(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    if not args.folder.is_dir():
        raise UsageError(f"{args.folder}: no such folder; name the folder that holds the step-<n> folders")
    if args.action == "gc":
        return gc_command.run(args.folder, args.days, args.keep, args.quota, args.dry_run, args.json)
    keep = KEEP if args.keep is None else args.keep
    if keep < KEEP or (args.keep_every is not None and args.keep_every < 1):
        raise UsageError(f"--keep is a number from {KEEP} up, --keep-every one from 1 up")
    policies: list[RetentionPolicy] = [KeepLast(keep)]
    if args.keep_every:
        policies.append(KeepEvery(args.keep_every))
    store = Store(args.folder, policies)
    return _prune(store, args.dry_run, args.json) if args.action == "prune" else _list(store, args)


def _prune(store: Store, dry_run: bool, as_json: bool) -> int:
    removed = [str(path) for path in (store.prunable() if dry_run else store.prune())]
    title = "would be removed:" if dry_run else "removed:"
    print(json.dumps(removed) if as_json else "\n".join([title, *removed] if removed else ["nothing to remove"]))
    return 0


def _list(store: Store, args: argparse.Namespace) -> int:
    found = [_describe(store, step, hashes=args.action == "verify") for step in store.steps()]
    aside = store.set_aside()
    if args.json:
        print(json.dumps({"checkpoints": found, "set_aside": aside}))
    else:
        _table(found, args.folder, "good" if args.action == "verify" else "sizes match")
        print("".join(f"set aside: {name}\n" for name in aside), end="")
    return 1 if any(one["damage"] for one in found) else 0


def _describe(store: Store, step: int, hashes: bool) -> dict[str, Any]:
    try:
        found = store.verify(step, hashes)
    except CorruptCheckpoint as error:
        return {"step": step, "world_size": None, "time": None, "size": None, "damage": str(error)}
    return {"step": step, "world_size": found.world_size, "time": found.time, "size": found.size, "damage": ""}


def _table(found: list[dict[str, Any]], folder: Path, good: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not found:
        print(f"no committed checkpoint in {folder}", file=sys.stderr)
        return
    table = Table("step", "ranks", "size", "committed", "age", "state")
    for one in found:
        table.add_row(str(one["step"]), *_row(one), Text(one["damage"] or good))
    Console().print(table)


def _row(one: dict[str, Any]) -> tuple[str, str, str, str]:
    """Ranks, size, time and age; nothing where the manifest is invalid."""
    if one["damage"]:
        return "", "", "", ""
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one["time"]))
    return str(one["world_size"]), size_text(one["size"]), moment, _age(time.time() - one["time"])


def _age(seconds: float) -> str:
    """In the two largest units, as 3d 4h; 0s where this clock is slower than the writer's."""
    minutes, rest = divmod(int(max(0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (rest, "s")]
    first = next((index for index, (count, _) in enumerate(parts) if count), 3)
    return " ".join(f"{count}{unit}" for count, unit in parts[first : first + 2])
