"""A training program without any code for Tiresias: it saves by itself when it gets a signal, and resumes from what it finds.

    self_saving_program.py STEPS SECONDS HABIT [SIGNAL]

good: it saves to out/state and ends with 0, as the Trainer of Hugging Face does.  requeues: it saves in its handler and calls
`scontrol requeue`, then trains on, as Lightning does.  fails: it ends with 3 and saves nothing.  ignores: it trains on.
half: it ends while out/checkpoint-is-incomplete.txt is there.  Each step goes to `losses`, the result to `result`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

STEPS, SECONDS, HABIT = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
NUMBER = signal.Signals[f"SIG{sys.argv[4] if sys.argv[4:] else 'TERM'}"]
STATE = Path("out/state")
asked = False
step, number = 0, 1


def save() -> None:
    STATE.with_name("new").write_text(json.dumps([step, number]))
    STATE.with_name("new").replace(STATE)


def on_signal(received: int, frame: object) -> None:
    global asked
    if HABIT == "requeues":
        save()
        subprocess.call(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]])
    asked = True


signal.signal(NUMBER, on_signal)
STATE.parent.mkdir(exist_ok=True)
if STATE.exists():
    step, number = json.loads(STATE.read_text())
with Path("losses").open("a", buffering=1) as losses:
    while step < STEPS:
        if asked and HABIT not in ("requeues", "ignores"):
            if HABIT == "fails":
                sys.exit(3)
            save()
            if HABIT == "half":
                STATE.with_name("checkpoint-is-incomplete.txt").write_text("half")
            sys.exit(0)
        time.sleep(SECONDS)
        step += 1
        number = (number * 6364136223846793005 + step) % 2**61
        print(step, number, file=losses)
Path("result").write_text(f"{step} {number}")
