"""A job that lies to the controller: it writes what it likes into its control folder, saves nothing, and leaves for nobody.

    liar.py ROOT SUPERVISOR PROGRAM [flood]        ROOT: of the control folders; the others: JSON, restart is filled in

flood: writes it again and again, in place, so that it is torn most of the time.
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
