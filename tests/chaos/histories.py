"""Record what the controller writes and calls in random histories of the model of Slurm, to compare two versions of it.

    python tests/chaos/histories.py [--seed N] [--histories 500] [--operations 60] --out FILE
    python tests/chaos/histories.py --compare FILE FILE

The rules are those of test_interleavings.py, picked by a seeded generator: crashes, owners, a Slurm that fails. Recorded are each
SQL statement that changes the journal, each call to Slurm and each published status, in their order. Two versions behave alike
where the files are equal; `--show N` prints the events of one history.
"""

from __future__ import annotations

import os
import sys

if not __package__:  # started by its path: once more, as a module of `tests`, with the same hashes each time
    MODULE = [sys.executable, "-m", "tests.chaos.histories", *sys.argv[1:]]
    os.execve(sys.executable, MODULE, {**os.environ, "PYTHONHASHSEED": "0"})

import argparse
import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_passed = 0.0  # seconds that the model let pass: the controller's steady clock
time.monotonic = lambda: _passed

from tests.chaos.model_job import NODES  # noqa: E402
from tests.chaos.test_interleavings import Interleavings  # noqa: E402
from tiresias.slurm_plugin.controller import Controller  # noqa: E402

CALLS = (
    "snapshot", "job", "hold", "release", "lift", "begin_now", "pin", "prioritize", "unpin", "signal", "requeue",
    "requeue_together",
)  # fmt: skip
VOLATILE = ("pid", "host", "started", "tiresias", "since")  # of the status
Operation = Callable[[Interleavings, random.Random], None]
OPERATIONS: tuple[tuple[int, Operation], ...] = (  # with their weights
    (6, lambda m, r: m.work(r.randint(1, 4))),
    (4, lambda m, r: m.time_passes(r.choice([0.5, 1.0, 2.0, 5.0, 25.0]))),
    (1, lambda m, r: m.clock_steps(r.choice([-3600.0, -30.0, 30.0, 3600.0])) if r.random() < 0.2 else None),
    (1, lambda m, r: m.disk_is_full(r.randint(1, 12)) if r.random() < 0.5 else None),
    (1, lambda m, r: m.slurm_saves()),
    (1, lambda m, r: m.slurm_forgets(r.random() < 0.5) if r.random() < 0.5 else None),
    (1, lambda m, r: m.happens_meanwhile(r.randint(1, 6), r.choice(["cancel", "requeue", "hold", "node"]), r.randint(0, 5))),
    (2, lambda m, r: m.kill_soon(r.randint(1, r.choice([6, 60])))),
    (1, lambda m, r: m.slurm_fails_soon(r.randint(1, 12))),
    (1, lambda m, r: m.stop() if m.controller and r.random() < 0.2 else None),
    (4, lambda m, r: _submit(m, r) if m.submitted < 9 else None),
    (1, lambda m, r: m.wrap_ids(r.randint(0, 5)) if m.slurm.jobs else None),
    (1, lambda m, r: m.cancel(r.randint(0, 5)) if m.slurm.jobs and r.random() < 0.5 else None),
    (1, lambda m, r: m.requeue(r.randint(0, 5)) if m.slurm.jobs else None),
    (1, lambda m, r: m.hold_or_release(r.randint(0, 5), r.choice(["owner", "admin"]), r.random() < 0.5) if m.slurm.jobs else None),
    (1, lambda m, r: m.modify(r.randint(0, 5), r.randint(0, 2)) if m.slurm.jobs else None),
    (1, lambda m, r: m.node_changes(r.choice(NODES), r.random() < 0.7)),
)  # fmt: skip


def _submit(machine: Interleavings, dice: random.Random) -> None:
    habit = dice.choice(["good", "good", "slow", "ignores", "ignores", "dumb"])
    machine.submit(dice.choice([1, 2, 4, 8, 8]), dice.choice([1.0, 4.0, 20.0, 60.0]), habit, dice.random() < 0.5)


class Recorded(Interleavings):
    """Keeps what happens at the journal and at Slurm."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []

    def start(self) -> None:
        self.open()
        for name in CALLS:
            self._listen(name)
        passing = self.slurm.pass_time

        def pass_time(seconds: float) -> None:
            global _passed
            _passed += seconds
            passing(seconds)

        self.slurm.pass_time = pass_time  # type: ignore[method-assign]

    def _listen(self, name: str) -> None:
        original = getattr(self.slurm, name)

        def call(*words: Any) -> Any:
            self.events.append(f"call {name} {words}")
            return original(*words)

        setattr(self.slurm, name, call)

    def _live(self) -> None:
        super()._live()
        assert self.controller
        self.journal._db.set_trace_callback(self._statement)
        publish = self.controller.publisher.publish

        def published(publication: Any) -> None:
            publish(publication)
            self._status()

        self.controller.publisher.publish = published  # type: ignore[method-assign]

    def _statement(self, sql: str) -> None:
        if sql.split(" ", 1)[0] in ("insert", "update", "delete", "begin", "commit", "rollback"):
            self.events.append(f"journal {sql}")

    def _status(self) -> None:
        assert self.controller
        self.events.append(f"status {json.dumps(_steady(self.controller.publisher._status()), sort_keys=True)}")

    def _do(self, operation: Callable[[Controller], object]) -> None:
        self.events.append(f"operation {operation.__name__} at {self.slurm.now}")
        super()._do(operation)


def _steady(found: Any) -> Any:
    """Without what differs between two processes."""
    if isinstance(found, dict):
        return {name: _steady(value) for name, value in found.items() if name not in VOLATILE}
    return [_steady(one) for one in found] if isinstance(found, list) else found


def history(seed: int, number: int, operations: int) -> list[str]:
    global _passed
    dice, _passed = random.Random(f"{seed}-{number}"), 0.0
    machine = Recorded()
    machine.start()
    weights = [weight for weight, _ in OPERATIONS]
    try:
        for _ in range(operations):
            dice.choices([operation for _, operation in OPERATIONS], weights)[0](machine, dice)
            machine.no_hold_without_an_owner()
    finally:
        machine.teardown()
    return machine.events


def digests(seed: int, histories: int, operations: int) -> Iterator[str]:
    for number in range(histories):
        events = history(seed, number, operations)
        yield f"{number} {len(events)} {hashlib.sha256(os.linesep.join(events).encode()).hexdigest()}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--histories", type=int, default=500)
    parser.add_argument("--operations", type=int, default=60)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=int, metavar="N")
    parser.add_argument("--compare", nargs=2, type=Path, metavar="FILE")
    args = parser.parse_args()
    if args.compare:
        first, second = (one.read_text().splitlines() for one in args.compare)
        differ = [line.split()[0] for line, other in zip(first, second, strict=True) if line != other]
        print(
            f"{len(first)} histories, {sum(int(line.split()[1]) for line in first)} events, {len(differ)} differ {differ[:10]}"
        )
        return bool(differ)
    if args.show is not None:
        print(*history(args.seed, args.show, args.operations), sep="\n")
        return 0
    args.out.write_text("\n".join(digests(args.seed, args.histories, args.operations)) + "\n")
    return 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.chaos.histories", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    sys.exit(main())
