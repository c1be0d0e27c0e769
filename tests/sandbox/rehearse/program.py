"""A training program: python program.py HABIT STEPS RESULT

good; elastic: also on another number of ranks; deaf: never stops; no99: saves and leaves with 0; saveless: leaves without a save;
forgetful: never restores; stuck: restores but begins at 0; crash: fails in restoring; early: good, but short; dies: after it has
resumed; lossy: saves half of it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tiresias.checkpoint import Checkpointer

habit, steps, result = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
checkpointer = Checkpointer.from_env()
found = None if habit == "forgetful" else checkpointer.restore(reshard=habit == "elastic")
if found and habit == "crash":
    raise RuntimeError("the optimizer's state does not fit")
step = found.step if found and habit != "stuck" else 0
number = found.state["number"] if found and habit != "stuck" else 1
began = time.monotonic()
print("from", step, flush=True)
while step < steps:
    time.sleep(0.01)
    step += 1
    number = (number * 6364136223846793005 + step) % 2**61
    if found and habit == "dies" and time.monotonic() - began > 0.5:
        sys.exit(7)
    if checkpointer.should_stop(step) and habit != "deaf":
        if habit != "saveless":
            checkpointer.save(step, {"number": number if habit != "lossy" else 2})
        if habit == "no99":
            sys.exit()
        checkpointer.exit_for_requeue()
result.write_text(f"{step} {number}")
