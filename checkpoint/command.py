"""Look at a folder of checkpoints: list, verify, prune.

examples:
  tiresias checkpoint ls /shared/tiresias/checkpoints/123
  tiresias checkpoint verify /shared/tiresias/checkpoints/123       every byte of every checkpoint; exit code 1 when one is damaged
  tiresias checkpoint prune --keep 3 /shared/tiresias/checkpoints/123
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from tiresias.checkpoint.manifest import CorruptCheckpoint
from tiresias.checkpoint.retention import KEEP, KeepLast
from tiresias.checkpoint.store import Store
from tiresias.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("ls", "verify", "prune"))
    parser.add_argument("folder", type=Path, metavar="DIR", help="a job's checkpoint folder")
    parser.add_argument(
        "--keep", type=int, default=KEEP, help=f"prune: how many newest ones stay, at least {KEEP} (default)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    if not args.folder.is_dir():
        raise UsageError(f"{args.folder}: no such folder; name the folder that holds the step-<n> folders")
    store = Store(args.folder, [KeepLast(args.keep)])
    if args.action == "prune":
        return _prune(store, args.json)
    found = [_describe(store, step, hashes=args.action == "verify") for step in store.steps()]
    print(json.dumps(found)) if args.json else _table(
        found, args.folder, "good" if args.action == "verify" else "sizes match"
    )
    return 1 if any(one["damage"] for one in found) else 0


def _prune(store: Store, as_json: bool) -> int:
    removed = [str(path) for path in store.prune()]
    print(json.dumps(removed) if as_json else "\n".join(["removed:", *removed] if removed else ["nothing to remove"]))
    return 0


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
    table = Table("step", "ranks", "bytes", "committed", "state")
    for one in found:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one["time"])) if one["time"] is not None else ""
        numbers = [str(one["step"]), *("" if one[key] is None else f"{one[key]:,}" for key in ("world_size", "size"))]
        table.add_row(*numbers, moment, Text(one["damage"] or good))
    Console().print(table)
