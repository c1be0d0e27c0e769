"""What the faults are injected into: python program.py SCENARIO, with fault.c preloaded.

Each line of standard input is a JSON object: root, at, action, lasting, log (see fault.c). A fork of this process runs the
scenario in that root; one line answers: its exit status as waitpid gives it, the number of calls, the message of its failure.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 (imports read files: all before the counting)
import ctypes
import hashlib  # noqa: F401
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tiresias.checkpoint import Checkpointer, Store, blocks, store
from tiresias.checkpoint.world import World
from tiresias.errors import TiresiasError
from tiresias.protocol import crc

BLOCK = 4096  # so that small states have many blocks, summed and synced by threads
SAVED, REFUSED = 0, 3


def state_of(step: int) -> dict[str, Any]:
    """A small value, a buffer of many blocks, and a stream; all contain the step."""

    def stream() -> Iterator[bytes]:
        for part in range(3):
            yield f"{step}.{part};".encode() * 700

    return {"step": step, "none": b"", "buffer": step.to_bytes(8, "big") * 5000, "stream": stream()}


def expected(step: int) -> dict[str, Any]:
    return {name: b"".join(value) if isinstance(value, Iterator) else value for name, value in state_of(step).items()}


def save(root: Path) -> None:
    Store(root).save(30, state_of(30))


def async_save(root: Path) -> None:
    checkpointer = Checkpointer(root, world=World())
    checkpointer.save(30, state_of(30), wait=False)
    checkpointer.flush()


def ranks(root: Path) -> None:
    """Two ranks in two threads: where one fails, both do."""
    failures: list[BaseException | None] = [None, None]

    def rank(number: int) -> None:
        try:
            Store(root).save(30, {**state_of(30), "rank": number}, World(number, 2, "both"))
        except BaseException as error:
            failures[number] = error

    threads = [threading.Thread(target=rank, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures[0]:
        raise failures[0]


def restore(root: Path) -> None:
    found = Store(root).restore()
    if found is None or found.step != 20 or dict(found.state) != expected(20):
        raise ValueError(f"restored {found and found.step}")


SCENARIOS: Mapping[str, Callable[[Path], None]] = {
    "save": save,
    "async_save": async_save,
    "ranks": ranks,
    "restore": restore,
}


def child(scenario: Callable[[Path], None], order: dict[str, Any], answer: int) -> None:
    library = ctypes.CDLL(None)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) if order["log"] else -1
    status, message = SAVED, ""
    library.fault_arm(ctypes.c_long(order["at"]), order["action"], order["lasting"], log)
    try:
        scenario(Path(order["root"]))
    except TiresiasError as error:
        status, message = REFUSED, str(error)
    except BaseException as error:
        status, message = 1, repr(error)
    count = library.fault_count()
    os.write(answer, json.dumps([count, message]).encode())
    os._exit(status)


def main() -> None:
    blocks.BLOCK = BLOCK
    crc.fastest()
    store.RANK_TIMEOUT_S = 20.0
    scenario = SCENARIOS[sys.argv[1]]
    for line in sys.stdin:
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            child(scenario, json.loads(line), writing)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            text = pipe.read()
        print(json.dumps([os.waitpid(pid, 0)[1], *json.loads(text or '[0, ""]')]), flush=True)


if __name__ == "__main__":
    main()
