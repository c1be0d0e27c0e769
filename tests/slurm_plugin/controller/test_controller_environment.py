"""Hostile environment variables of a submission affect only the user's own job."""

from __future__ import annotations

import re

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci]
EVIL = "/shared/evil"
ENVIRONMENT = {
    "PYTHONPATH": EVIL, "PYTHONSTARTUP": f"{EVIL}/sitecustomize.py", "PYTHONHOME": "/nonexistent",
    "BASH_ENV": f"{EVIL}/rc", "ENV": f"{EVIL}/rc",
    "LD_PRELOAD": f"{EVIL}/no.so", "IFS": "/", "PATH": f"{EVIL}/bin:/usr/local/bin:/usr/bin:/bin", "LD_LIBRARY_PATH": EVIL,
    "TMPDIR": "/tmp", "XDG_CACHE_HOME": EVIL, "SCANCEL_USER": "alice", "SQUEUE_FORMAT": "%A", "SLURM_SPANK_X": "1",
}  # fmt: skip
TRACE = 'touch "/shared/out/ran-as-$(/usr/bin/id -u)-$$"'


def set_traps(centre: Centre) -> None:
    """Make programs and modules that, if run, leave a file owned by the running user."""
    evil = centre.cluster.shared / "evil"
    (evil / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("scontrol", "squeue", "scancel", "sacctmgr", "sinfo", "timeout", "logger"):
        (evil / "bin" / name).write_text(f'#!/bin/sh\n{TRACE}\nexec "/usr/bin/{name}" "$@"\n')
        (evil / "bin" / name).chmod(0o755)
    (evil / "rc").write_text(TRACE + "\n")
    (evil / "sitecustomize.py").write_text(
        "import os\nopen(f'/shared/out/ran-as-{os.getuid()}-py-{os.getpid()}', 'w').close()\n"
    )
    (evil / "json.py").write_text("raise SystemExit('the json module of the user')\n")


def test_hostile_variables_affect_only_the_users_own_job(centre: Centre) -> None:
    set_traps(centre)
    bobs = centre.submit(
        "--export=ALL", command="bash -c 'squeue -h'; exec /usr/bin/sleep 300", gpus=16, user="bob", env=ENVIRONMENT
    )
    centre.wait_for_state(bobs, "RUNNING")
    alices = centre.train(gpus=2)
    centre.cancel(bobs, user="bob")
    centre.wait_until_preemptable(alices)
    centre.wait_for_cycles(4)
    caught = list((centre.cluster.shared / "out").glob("ran-as-*"))
    assert {path.stat().st_uid for path in caught} <= {2002}, [path.name for path in caught]
    assert [path for path in caught if path.stat().st_uid == 2002], "no trap works: the test checks nothing"


def test_the_supervisor_ignores_the_users_python_path(centre: Centre) -> None:
    """PYTHONPATH reaches the program; the supervisor runs with its own Python and modules, and without a start-up file."""
    set_traps(centre)
    out = "/shared/out/env-%j"
    job = centre.submit(
        f"--output={out}",
        command="env",
        user="bob",
        by="tsbatch",
        env={"PYTHONPATH": f"/opt/tiresias/src:/opt/pyslurm:{EVIL}"},
    )
    centre.wait_for_state(job, "COMPLETED")
    text = (centre.cluster.shared / "out" / f"env-{job}").read_text()
    assert re.search(rf"^PYTHONPATH=.*{EVIL}$", text, re.MULTILINE), "the user's value reaches the program"
    assert re.search(r"^TIRESIAS_CONTROL=/shared/tiresias/control/2002/\d+$", text, re.MULTILINE)
