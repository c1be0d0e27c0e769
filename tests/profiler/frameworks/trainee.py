"""The common parts of the training programs in this folder: a model's tensors, a pace, and the true values that they write.

The programs run with tests/profiler on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from tensors import tensors


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--scale", type=int, required=True, help="tensors are that much smaller")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--servers", type=int, default=0, help="they have the ranks after the workers")
    parser.add_argument("--ports", type=int, nargs="+", required=True)
    parser.add_argument("--iterations", type=int, default=25)
    parser.add_argument("--compute", type=float, default=0.05, help="seconds")
    parser.add_argument("--truth", type=Path, required=True, help="folder for the seconds of each iteration")
    return parser.parse_args()


def counts(args: argparse.Namespace) -> list[int]:
    """Elements of each tensor, in the order of the layers."""
    return [max(size // 4 // args.scale, 1) for size in tensors(args.model)]


class Diary:
    """with diary.iteration(): ...; diary.close()"""

    def __init__(self, args: argparse.Namespace) -> None:
        self.path = args.truth / f"{args.rank}.json"
        self.starts: list[float] = []

    def begin(self) -> None:
        self.starts.append(time.monotonic())

    def close(self) -> None:
        self.begin()
        pairs = zip(self.starts, self.starts[1:], strict=False)
        self.path.write_text(json.dumps([after - before for before, after in pairs]))
