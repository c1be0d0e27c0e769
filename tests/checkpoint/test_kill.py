"""kill -9 while saving, many times: a reader always gets a whole checkpoint, and never an older one than the last committed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from tiresias.checkpoint import Store

WRITER = """
import sys
from tiresias.checkpoint import Store
store = Store(sys.argv[1])
found = store.restore()
step = found.step if found else 0
while True:
    step += 1
    store.save(step, {"step": step, "data": step.to_bytes(8, "big") * (1 << 17)})
    print(step, flush=True)
"""
KILLS = 40


def run_writer(root: Path, seconds: float) -> list[int]:
    """Steps that the writer saw committed until it was killed so long after its first one."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(root)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout
    first = writer.stdout.readline()
    time.sleep(seconds)
    writer.kill()
    rest, _ = writer.communicate()
    return [int(line) for line in (first + rest).split()]


def test_killed_at_random_points(tmp_path: Path) -> None:
    chance = random.Random(7)
    store, last = Store(tmp_path / "job"), 0
    unfinished = 0
    for _ in range(KILLS):
        committed = run_writer(store.root, chance.uniform(0, 0.05))
        assert committed[0] == last + 1, "the writer did not go on where the last one was"
        unfinished += any(path.name.startswith(".step-") for path in store.root.iterdir())
        found = store.restore()
        assert found is not None
        assert found.step in (committed[-1], committed[-1] + 1)  # killed between the commit and the word of it
        assert not list(store.root.glob("damaged-*")), "a reader saw one that was not whole"
        assert found.state["data"] == found.step.to_bytes(8, "big") * (1 << 17)
        last = found.step
    assert unfinished, "no writer was killed in the middle of a save: the test showed nothing"
