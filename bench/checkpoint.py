"""Checkpoint saves and restores against bare writes and reads of the same bytes, and against other libraries; prints JSON.

    python3 bench/checkpoint.py [--megabytes 64,256,1024] [--repeat 7] [--folder .] [--what save,cold,warm,asynchronous]

Every round does each thing once, in a random order, on the same file system; each save also removes a file of that size. A restore
is timed until all bytes are in memory of the program's own, from a cold and from a warm page cache. `ratio` is the median of the
bare seconds by the median of these (bars: 0.9 for save, 0.85 for restore at 1 GB); `best_ratio` compares the fastest, which other
programs disturb least; `spread` is the distance of the quartiles by the median. Row "copied" copies all bytes once more, as
load_state_dict does with the weights of a model. `crc32` is the implementation in use (protocol/crc.py).
`blocked` is the share of its own seconds for which a save with wait=False holds up the training (bar: below 0.1).
Rows of PyTorch (torch.save, torch.distributed.checkpoint) are there where it can be imported.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import shutil
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tiresias.checkpoint import Checkpointer, Store, crc
from tiresias.checkpoint.world import World

PARTS = 16  # tensors, as a model has several
Action = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", default="64,256,1024")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--what", default="save,cold,warm,asynchronous", help="cold, warm: page caches of the restores")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    args = parser.parse_args()
    random.seed(args.seed)
    what = args.what.split(",")
    rows = [measure(args.folder, int(size) << 20, args.repeat, what) for size in args.megabytes.split(",")]
    found = {
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "crc32": crc.fastest().__module__ or "zlib",
        "hashes": hash_rates(),
    }
    print(json.dumps({**found, "sizes": rows}, indent=2))


def measure(parent: Path, size: int, repeat: int, what: list[str]) -> dict[str, Any]:
    state = {f"part{number}": bytearray(os.urandom(1 << 20) * (size // PARTS >> 20)) for number in range(PARTS)}
    folder = Path(tempfile.mkdtemp(prefix="bench-checkpoint-", dir=parent))
    try:
        saves, restores = subjects(folder, state)
        saved = rounds(saves, repeat if "save" in what else 0)
        found: dict[str, Any] = {"bytes": size, **({"save": table(saved)} if "save" in what else {})}
        for cache, before in {"cold": lambda: forget(folder), "warm": lambda: None}.items():
            if cache in what:
                found[f"restore {cache}"] = table(rounds(restores, repeat, before))
        if "asynchronous" in what:
            found["asynchronous"] = asynchronous(folder / "asynchronous", state, repeat)
        return found
    finally:
        shutil.rmtree(folder)


def subjects(folder: Path, state: dict[str, Any]) -> tuple[dict[str, Action], dict[str, Action]]:
    """What is timed: name -> save, name -> restore."""
    store = Store(folder / "store")
    steps = iter(range(10**9))
    saves: dict[str, Action] = {
        "bare": lambda: write_bare(folder, state),
        "tiresias": lambda: store.save(next(steps), state),
    }
    restores: dict[str, Action] = {
        "bare": lambda: read_bare(folder / "bare"),
        "tiresias": lambda: read_back(store),
        "copied": lambda: [bytes(part) for part in read_back(store)],
    }
    with suppress(ImportError):
        import torch
        import torch.distributed.checkpoint as dcp

        tensors = {name: torch.frombuffer(part, dtype=torch.uint8) for name, part in state.items()}
        empty = {name: torch.empty_like(part) for name, part in tensors.items()}
        saves["torch.save"] = lambda: write_torch(folder, tensors)
        restores["torch.save"] = lambda: torch.load(folder / "torch", weights_only=True)
        saves["dcp"] = lambda: write_dcp(folder, tensors)
        restores["dcp"] = lambda: dcp.load(empty, checkpoint_id=folder / "dcp", no_dist=True)
    return saves, restores


def write_bare(folder: Path, state: dict[str, Any]) -> None:
    with replaced(folder / "bare") as path, path.open("wb", buffering=0) as file:
        for part in state.values():
            rest = memoryview(part)
            while len(rest):
                rest = rest[file.write(rest) :]
        os.fsync(file.fileno())


def write_torch(folder: Path, tensors: dict[str, Any]) -> None:
    import torch

    with replaced(folder / "torch") as path, path.open("wb") as file:
        torch.save(tensors, file)
        file.flush()
        os.fsync(file.fileno())


def write_dcp(folder: Path, tensors: dict[str, Any]) -> None:
    """Its writer syncs its files by itself (sync_files is on)."""
    import torch.distributed.checkpoint as dcp

    with replaced(folder / "dcp") as path:
        dcp.save(tensors, checkpoint_id=path, no_dist=True)


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A new name to write at, which then takes the old one's place, as a checkpoint does."""
    fresh = path.with_name(f"{path.name}.new")
    yield fresh
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    fresh.rename(path)


def read_bare(path: Path) -> bytes:
    with path.open("rb", buffering=0) as file:
        return file.read()


def read_back(store: Store) -> list[memoryview]:
    """Where memory is scarce the bytes are mapped: then they are copied."""
    found = store.restore()
    assert found is not None
    (store.root / "attempts.json").unlink()  # many restores without a save: not a checkpoint that fails
    parts = [found.state.own(name) for name in found.state]
    return [memoryview(bytes(part)) if part.readonly else part for part in parts]


def forget(folder: Path) -> None:
    """Clean pages leave the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def rounds(actions: dict[str, Action], repeat: int, before: Action = lambda: None) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in actions}
    names = list(actions)
    for _ in range(repeat + 1):
        for name in random.sample(names, len(names)):
            before()
            times[name].append(seconds(actions[name]))
    return {name: found[1:] for name, found in times.items()}  # the first ones warm up


def table(times: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    bare = statistics.median(times["bare"]), min(times["bare"])
    return {
        name: {**summary(found), "ratio": bare[0] / statistics.median(found), "best_ratio": bare[1] / min(found)}
        for name, found in times.items()
    }


def summary(found: list[float]) -> dict[str, float]:
    quartiles = statistics.quantiles(found, n=4) if len(found) > 1 else [found[0]] * 3
    return {
        "seconds": statistics.median(found),
        "best": min(found),
        "spread": (quartiles[2] - quartiles[0]) / quartiles[1],
    }


def asynchronous(folder: Path, state: dict[str, Any], repeat: int) -> dict[str, float]:
    """Measure asynchronous saves: seconds until the call returns, and until everything is on disk."""
    checkpointer = Checkpointer(folder, world=World())
    blocked, whole = [], []
    for step in range(repeat + 1):
        start = time.perf_counter()
        checkpointer.save(step, state, wait=False)
        blocked.append(time.perf_counter() - start)
        checkpointer.flush()
        whole.append(time.perf_counter() - start)
    return {
        "blocked_seconds": statistics.median(blocked[1:]),
        "seconds": statistics.median(whole[1:]),
        "blocked": statistics.median(one / other for one, other in zip(blocked[1:], whole[1:], strict=True)),
    }


def seconds(action: Action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def hash_rates() -> dict[str, float]:
    """Megabytes a second of one core."""
    block = os.urandom(32 << 20)
    candidates: dict[str, Action] = {
        "sha256": lambda: hashlib.sha256(block),
        "zlib": lambda: zlib.crc32(block),
        "crc32": lambda: crc.fastest()(block, 0),
    }
    return {name: len(block) / 1e6 / min(seconds(action) for _ in range(3)) for name, action in candidates.items()}


if __name__ == "__main__":
    main()
