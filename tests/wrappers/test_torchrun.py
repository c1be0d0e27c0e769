"""The real torchrun under the supervisor. Facts of its agent, read in torch 2.13 and held here:

- SIGTERM to the agent goes on to the workers, and SIGKILL 30 s later (--shutdown-timeout): it gets none before all have saved.
- A worker that fails (99 is a failure) ends the others the same way, and with --max-restarts the group is started again.
- Each worker has a session of its own: the script's process group does not hold it. The agent dies of USR2: only workers get it.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PYTHON = os.environ.get("TIRESIAS_TORCH_PYTHON") or sys.executable
pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(sys.executable == PYTHON and not find_spec("torch"), reason="PyTorch is not installed"),
    pytest.mark.slow,
]
Site = Any  # conftest.py
RANKS = Path(__file__).parents[1] / "checkpoint" / "rank_program.py"
SOURCE = Path(__file__).parents[2] / "src"


def torchrun(*options: str) -> str:
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *options, str(RANKS), "0.01"]
    return f"export PYTHONPATH={SOURCE} OMP_NUM_THREADS=1\nexec {shlex.join([PYTHON, *words])}"


@pytest.mark.parametrize("restarts", [pytest.param(0, marks=pytest.mark.long), 3])
def test_preempted_and_resumed(site: Site, restarts: int) -> None:
    script = torchrun(f"--max-restarts={restarts}")
    job = site.start(script)
    job.until_logged("start 0 1")
    asked = time.monotonic()
    job.preempt()
    assert time.monotonic() - asked < 30, "a process waited for torchrun's 30 s"
    stops = re.findall(r"^stop (\d+)", job.log.read_text(), re.MULTILINE)
    assert len(stops) == 2, job.log.read_text()
    assert len(set(stops)) == 1
    assert job.report().step == int(stops[-1])
    assert workers(site) == []
    assert job.send(signal.SIGTERM).end() == 99
    last = site.start(script, restart=1)
    last.until(lambda report: len(re.findall(rf"^start {stops[-1]} ", last.log.read_text(), re.MULTILINE)) == 2)
    last.preempt().send(signal.SIGTERM).end()


def workers(site: Site) -> list[str]:
    found = subprocess.run(["pgrep", "-f", str(RANKS)], capture_output=True, text=True, check=False).stdout.split()
    mine = str(site.control()).encode()
    return [pid for pid in found if mine in Path(f"/proc/{pid}/environ").read_bytes()]
