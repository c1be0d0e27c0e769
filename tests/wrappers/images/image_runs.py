"""Runs of jobs whose program is dumped as an image, by hand as slurmd would start them. The tool must be in PATH."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tiresias.checkpoint import Store
from tiresias.protocol import control
from tiresias.wrappers.images import criu, image_place, option

Site = Any  # tests/wrappers/conftest.py
Job = Any

MISSING = {tool: image_place.kind(tool).missing() for tool in option.TOOLS}
MARKS = {
    tool: pytest.mark.skipif(bool(reason), reason=f"{reason}: docs/how-to/dmtcp.md") for tool, reason in MISSING.items()
}
TOOLS = [pytest.param(tool, marks=MARKS[tool]) for tool in option.TOOLS]
# A loop that waits for the file `go` after its first lines: what is preempted there continues there.
LOOP = """\
echo begins; number=1
for step in 1 2 3; do number=$((number * 7 % 1000)); echo "step $step"; done
until [ -e go ]; do sleep 0.1; done
for step in 4 5 6; do number=$((number * 7 % 1000)); echo "step $step"; done
echo "$number" > result
exit 7
"""
LARGE = "ballast=$(head -c 60000000 /dev/zero | tr '\\0' x)\n" + LOOP  # its dump takes some time
RESULT = f"{7**6 % 1000}\n"
GATE = """\
#!/bin/sh
case " $* " in *" {action} "*) touch {folder}/reached; until [ -e {folder}/open ]; do sleep 0.02; done;; esac
exec {program} "$@"
"""


def start(site: Site, tool: str, restart: int, script: str = LOOP, prefix: Sequence[str] = (), **env: str) -> Job:
    """Start a run whose files of the node are in the site's folder, if not in another TMPDIR."""
    return site.start(
        script, restart=restart, prefix=prefix, TIRESIAS_CHECKPOINT=tool, **{"TMPDIR": str(site.folder), **env}
    )


def started(site: Site, tool: str, restart: int, script: str = LOOP, **env: str) -> Job:
    """Start a run; return it once it can be dumped, in the first run after its third step."""
    job = start(site, tool, restart, script, **env)
    job.until(lambda report: report.ready)
    return job if restart else job.until_logged("step 3")


def dumped(site: Site, tool: str, restart: int, script: str = LOOP, **env: str) -> Job:
    """Start a run and preempt it; return it when it waits for its requeue."""
    job = started(site, tool, restart, script, **env)
    return job.send(signal.SIGUSR2).until(lambda report: report.state == "parked")


def requeue(job: Job) -> None:
    job.send(signal.SIGTERM)
    assert job.end() == control.EXIT_REQUEUE


def ends_well(site: Site, job: Job) -> None:
    """Let the loop go on: it ends with the result of an undisturbed run."""
    (site.folder / "go").touch()
    assert job.end() == 7, job.log.read_text()
    assert (site.folder / "result").read_text() == RESULT


def steps(site: Site) -> list[int]:
    """Return the images in the store, newest first."""
    return Store(site.folder / "checkpoints" / "7").steps()


def only_line(job: Job, words: str) -> str:
    """Return the one line of a run's log that contains the words; no other problem is logged."""
    log = job.log.read_text()
    (line,) = [line for line in log.splitlines() if words in line]
    assert "Traceback" not in log
    return str(line)


def log_of(site: Site) -> list[str]:
    """The lines of the program in all runs."""
    lines = [line for job in site.started for line in job.log.read_text().splitlines()]
    return [line for line in lines if not line.startswith("tiresias: ")]


def images(site: Site) -> list[Path]:
    """Return the files of an image on the node."""
    return [path for path in site.folder.glob("tiresias-image-*/images/**/*") if path.is_file()]


class Gate:
    """A folder with a tool's command, in which each dump waits until the gate is opened, and then goes on with the real tool.

    Attributes:
        path: A value of PATH with that folder first.
    """

    def __init__(self, site: Site, tool: str) -> None:
        name, action = {"dmtcp": ("dmtcp_command", "--kcheckpoint"), "criu": ("criu", "dump")}[tool]
        program = criu.criu() if tool == "criu" else shutil.which(name)
        self._folder = site.folder / "gate"
        self._folder.mkdir()
        (self._folder / name).write_text(GATE.format(action=action, folder=self._folder, program=program))
        (self._folder / name).chmod(0o755)
        self.path = f"{self._folder}:{os.environ['PATH']}"

    def until_reached(self, job: Job) -> None:
        job.until(lambda _: (self._folder / "reached").exists())

    def open(self) -> None:
        (self._folder / "open").touch()
