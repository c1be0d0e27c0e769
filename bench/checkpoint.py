"""Checkpoint save against a bare write + fsync of the same bytes, and restore with all hashes; prints JSON.

    python3 bench/checkpoint.py [--megabytes 64,512] [--repeat 5] [--folder .]

Bare and saved alternate, the order changing each time, on the same file system; both remove a file of that size each time.
`ratio` is the median of bare seconds by the median of save seconds (bar: 0.9).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tiresias.checkpoint import Store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", default="1,64,512")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path())
    args = parser.parse_args()
    rows = [measure(args.folder, int(size) << 20, args.repeat) for size in args.megabytes.split(",")]
    print(
        json.dumps(
            {"cpus": os.cpu_count(), "python": platform.python_version(), "hashes": hash_rates(), "saves": rows},
            indent=2,
        )
    )


def measure(parent: Path, size: int, repeat: int) -> dict[str, float]:
    state = os.urandom(1 << 20) * (size >> 20)
    folder = Path(tempfile.mkdtemp(prefix="bench-checkpoint-", dir=parent))
    store = Store(folder / "store")
    bare: list[float] = []
    saved: list[float] = []
    try:
        for number in range(repeat + 1):
            actions = [
                (bare, partial(write_bare, folder / "bare", state)),
                (saved, partial(store.save, number, {"state": state})),
            ]
            for times, action in actions if number % 2 else actions[::-1]:
                times.append(seconds(action))
        restored = seconds(lambda: store.restore())
    finally:
        shutil.rmtree(folder)
    one, other = statistics.median(bare[1:]), statistics.median(saved[1:])  # the first ones warm up
    return {
        "bytes": size,
        "bare_seconds": one,
        "save_seconds": other,
        "ratio": one / other,
        "restore_seconds": restored,
    }


def write_bare(path: Path, state: bytes) -> None:
    with path.open("wb", buffering=0) as file:
        rest = memoryview(state)
        while len(rest):
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    path.unlink()


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def hash_rates() -> dict[str, float]:
    """Megabytes a second of one core."""
    block = os.urandom(32 << 20)
    candidates: dict[str, Callable[[], object]] = {
        "sha256": lambda: hashlib.sha256(block), "blake2b": lambda: hashlib.blake2b(block), "crc32": lambda: zlib.crc32(block),
    }  # fmt: skip
    return {name: len(block) / 1e6 / min(seconds(action) for _ in range(3)) for name, action in candidates.items()}


if __name__ == "__main__":
    main()
