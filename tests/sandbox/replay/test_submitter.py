"""The submitter, with a stand-in for sbatch: it prints what the real one prints, or refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SBATCH = """#!/bin/sh
echo "$*" >> {calls}
case "$*" in *refuse*) echo "sbatch: error: no such partition" >&2; exit 1;; esac
case "$*" in *late*) [ $(grep -c late {calls}) = 3 ] || exit 1;; esac
case "$*" in *lost*) echo lost >> {accepted}; exit 1;; esac
echo "12;cluster"
"""
SQUEUE = """#!/bin/sh
case "$*" in *--name=lost*) grep -q lost {accepted} && echo "34|PENDING|";; esac
case "$*" in *--name=late*) echo "33|FAILED|";; esac
"""


def submit(folder: Path, *entries: dict[str, Any]) -> list[dict[str, Any]]:
    """The log, one entry for each of `entries`; the time between tries is cut short."""
    (folder / "bin").mkdir()
    for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE)):
        (folder / "bin" / name).write_text(text.format(calls=folder / "calls", accepted=folder / "accepted"))
        (folder / "bin" / name).chmod(0o755)
    (folder / "plan").write_text("\n".join(json.dumps({"name": entry["job"]} | entry) for entry in entries))
    environment = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder)}
    program = "import sys; from tiresias.sandbox.replay import submitter as it; it.RETRY_DELAY_S = 0.01; it.main(sys.argv[1:])"
    command = [sys.executable, "-c", program, str(folder / "plan"), str(folder / "log")]
    subprocess.run(command, env=environment, check=True, timeout=60, stdin=subprocess.DEVNULL)
    return [json.loads(line) for line in (folder / "log").read_text().splitlines()]


def test_both_programs_submit_and_the_id_is_kept(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\ntrue\n")
    log = submit(
        tmp_path,
        {"job": "a", "at": 0, "command": ["sbatch", "--parsable", str(script)]},
        {"job": "b", "at": 0, "command": ["tsbatch", "--parsable", str(script), "--own", "argument"]},
    )
    assert [(entry["job"], entry["id"], entry["error"]) for entry in log] == [("a", "12", ""), ("b", "12", "")]
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0] == f"--parsable {script}"
    assert calls[1].startswith(f"--bbf={tmp_path}/.tiresias/batch/")  # has sbatch insert the supervisor
    assert calls[1].endswith(f" --parsable {script} --own argument")


def test_a_refusal_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    log = submit(
        tmp_path,
        {"job": "a", "at": 0, "command": ["sbatch", "refuse"]},
        {"job": "b", "at": 0, "command": ["sbatch", "script"]},
    )
    assert (log[0]["error"], log[0]["id"]) == ("sbatch: error: no such partition", "")
    assert (log[1]["error"], log[1]["id"]) == ("", "12")


def test_a_submission_that_fails_is_tried_again(tmp_path: Path) -> None:
    """Also where Slurm has kept the refused job."""
    (entry,) = submit(tmp_path, {"job": "late", "at": 0, "command": ["sbatch", "late"]})
    assert (entry["id"], entry["error"]) == ("12", "")


def test_one_that_was_accepted_unheard_is_not_submitted_twice(tmp_path: Path) -> None:
    (entry,) = submit(tmp_path, {"job": "lost", "at": 0, "command": ["sbatch", "lost"]})
    assert (entry["id"], entry["error"]) == ("34", "")
    assert (tmp_path / "calls").read_text().splitlines() == ["lost"]


def test_jobs_wait_for_their_moment(tmp_path: Path) -> None:
    soon = time.time() + 1.5
    (entry,) = submit(tmp_path, {"job": "a", "at": soon, "command": ["sbatch", "script"]})
    assert entry["time"] >= soon


def test_the_choices_of_a_job_are_not_those_of_the_next_one(tmp_path: Path) -> None:
    """tsbatch sets them in the environment of the process, which submits all jobs."""
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\ntrue\n")
    elastic = ["tsbatch", "--parsable", "--elastic=1-8", "--ntasks=2", "--gpus-per-task=1", str(script)]
    log = submit(
        tmp_path,
        {"job": "a", "at": 0, "command": elastic},
        {"job": "b", "at": 0, "command": ["tsbatch", "--parsable", "--gpus=2", str(script)]},
    )
    assert [entry["error"] for entry in log] == ["", ""]
