"""A job that reports false states: it writes any report into its control folder, saves nothing, and ignores signals.

    liar.py ROOT SUPERVISOR PROGRAM [flood]        ROOT: the control folders; the others: JSON, the restart count is added

flood: rewrites the reports in place without end, so that they are incomplete most of the time.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from tiresias.protocol import control


def main(root: str, supervisor: str, program: str, flood: str = "") -> None:
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    folder = control.job_folder(Path(root), os.getuid(), os.environ["SLURM_JOB_ID"])
    folder.mkdir(parents=True, exist_ok=True)
    restart = {"restart": int(os.environ.get("SLURM_RESTART_COUNT", "0"))}
    lies = {control.SUPERVISOR: restart | json.loads(supervisor), control.PROGRAM: restart | json.loads(program)}
    for name, lie in lies.items():
        control.write(folder, name, lie)
    while flood:
        for name, lie in lies.items():
            (folder / name).write_text(json.dumps(lie))
            time.sleep(0.005)
    time.sleep(3600)


main(*sys.argv[1:])
