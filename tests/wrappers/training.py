"""A training program for the tests: python training.py STEPS SECONDS_PER_STEP RESULT [EVERY].

Its result depends on every step. It saves every so many steps, and on request.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tiresias.checkpoint import Checkpointer


def main() -> None:
    checkpointer = Checkpointer.from_env()
    found = checkpointer.restore()
    step, number = (found.step, found.state["number"]) if found else (0, 1)
    while step < int(sys.argv[1]):
        time.sleep(float(sys.argv[2]))
        step += 1
        number = (number * 6364136223846793005 + step) % 2**61
        stop = checkpointer.should_stop(step)
        if stop or (sys.argv[4:] and step % int(sys.argv[4]) == 0):
            checkpointer.save(step, {"number": number})
        if stop:
            checkpointer.exit_for_requeue()
    Path(sys.argv[3]).write_text(f"{step} {number}")


if __name__ == "__main__":
    main()
