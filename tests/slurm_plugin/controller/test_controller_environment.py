"""A user who sets up his environment for mischief and submits: it is his own job's, and nobody else's."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytestmark = pytest.mark.sandbox
EVIL = "/shared/evil"
ENVIRONMENT = {
    "PYTHONPATH": EVIL, "PYTHONSTARTUP": f"{EVIL}/sitecustomize.py", "PYTHONHOME": "/nonexistent",
    "BASH_ENV": f"{EVIL}/rc", "ENV": f"{EVIL}/rc",
    "LD_PRELOAD": f"{EVIL}/no.so", "IFS": "/", "PATH": f"{EVIL}/bin:/usr/local/bin:/usr/bin:/bin", "LD_LIBRARY_PATH": EVIL,
    "TMPDIR": "/tmp", "XDG_CACHE_HOME": EVIL, "SCANCEL_USER": "alice", "SQUEUE_FORMAT": "%A", "SLURM_SPANK_X": "1",
}  # fmt: skip
TELL = 'touch "/shared/out/ran-as-$(/usr/bin/id -u)-$$"'


def set_traps(centre: Any) -> None:
    """Whatever is caught in them leaves a file that its user owns."""
    evil = centre.cluster.shared / "evil"
    (evil / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("scontrol", "squeue", "scancel", "sacctmgr", "sinfo", "timeout", "logger"):
        (evil / "bin" / name).write_text(f'#!/bin/sh\n{TELL}\nexec "/usr/bin/{name}" "$@"\n')
        (evil / "bin" / name).chmod(0o755)
    (evil / "rc").write_text(TELL + "\n")
    (evil / "sitecustomize.py").write_text(
        "import os\nopen(f'/shared/out/ran-as-{os.getuid()}-py-{os.getpid()}', 'w').close()\n"
    )
    (evil / "json.py").write_text("raise SystemExit('a json of his own')\n")


def test_what_a_user_sets_hurts_only_himself(centre: Any) -> None:
    set_traps(centre)
    own_folder = centre.submit(
        "--export=ALL", command="bash -c 'squeue -h'; exec /usr/bin/sleep 300", gpus=16, user="bob", env=ENVIRONMENT
    )
    centre.reaches(own_folder, "RUNNING")
    hers = centre.train(gpus=2)
    centre.cancel(own_folder, user="bob")
    centre.trains(hers)
    centre.cycles(4)
    caught = list((centre.cluster.shared / "out").glob("ran-as-*"))
    assert {path.stat().st_uid for path in caught} <= {2002}, [path.name for path in caught]
    assert [path for path in caught if path.stat().st_uid == 2002], "no trap works: this test proves nothing"


def test_his_supervisor_is_not_led_astray_either(centre: Any) -> None:
    """His PYTHONPATH is for his program: what runs it is our Python, our modules, and no start-up file."""
    set_traps(centre)
    out = "/shared/out/env-%j"
    job = centre.submit(
        f"--output={out}", command="env", user="bob", by="tsbatch", env={"PYTHONPATH": f"/opt/tiresias/src:/opt/pyslurm:{EVIL}"}
    )  # fmt: skip
    centre.reaches(job, "COMPLETED")
    text = (centre.cluster.shared / "out" / f"env-{job}").read_text()
    assert re.search(rf"^PYTHONPATH=.*{EVIL}$", text, re.MULTILINE), "what he set reaches his program"
    assert re.search(r"^TIRESIAS_CONTROL=/shared/tiresias/control/2002/\d+$", text, re.MULTILINE)
