"""One rank of a training program, run by test_ranks.py: python rank_program.py SECONDS_PER_STEP [LOCKSTEP_FILE]

With a lockstep file no rank starts step n + 1 before all have done step n, as a collective operation has it.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import sys
import time
from pathlib import Path

from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.rank_group import Agrees

LAST = int(os.environ.get("LAST", "1000000"))


class Lockstep:
    def __init__(self, path: Path, rank: int, size: int) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 8 * size)
        self._rank, self._size = rank, size

    def wait(self, step: int) -> None:
        struct.pack_into("q", self._memory, 8 * self._rank, step)
        while min(struct.unpack_from(f"{self._size}q", self._memory)) < step:
            time.sleep(0.0002)


def die_if(rank: int, moment: str) -> None:
    if os.environ.get("DIES") == f"{rank} {moment}":
        os.kill(os.getpid(), signal.SIGKILL)


class DiesOnRequest:
    """The launch's agreement, of a rank that is killed at its first poll after it was asked to stop."""

    def __init__(self, agreement: Agrees, rank: int) -> None:
        self._agreement, self._rank = agreement, rank

    def stops_at(self, step: int, requested: bool) -> bool:
        if requested:
            die_if(self._rank, "before it looks")
        return self._agreement.stops_at(step, requested)


def main() -> None:
    checkpointer = Checkpointer.from_env()
    world = checkpointer.world
    checkpointer.agree_by(DiesOnRequest(checkpointer._agreement, world.rank))
    lockstep = Lockstep(Path(sys.argv[2]), world.rank, world.size) if sys.argv[2:] else None
    found = checkpointer.restore(reshard="RESHARD" in os.environ)
    step, own = (found.step, found.state["own"]) if found else (0, world.rank)
    print("start", step, own, found.state["shared"] if found else "", flush=True)
    if found and "RESHARD" in os.environ:
        print("shards", *(shard["own"] for shard in found.shards), flush=True)
    while step < LAST:
        time.sleep(float(sys.argv[1]))
        step += 1
        own = (own * 31 + step) % 1_000_003
        if lockstep:
            lockstep.wait(step)
        if checkpointer.should_stop(step):
            die_if(world.rank, "before it saves")
            shared = {"shared": f"by rank {world.rank}"} if world.rank == 0 else {}
            checkpointer.save(step, {"own": own, **shared})
            print("stop", step, own, flush=True)
            checkpointer.exit_for_requeue()


if __name__ == "__main__":
    main()
