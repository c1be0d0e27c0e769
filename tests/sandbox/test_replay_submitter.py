"""The submitter, with an sbatch of ours at the edge: it prints what the real one prints, or refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SBATCH = """#!/bin/sh
case "$*" in *refuse*) echo "sbatch: error: no such partition" >&2; exit 1;; esac
echo "$*" >> {calls}
echo "12;cluster"
"""


def submit(folder: Path, *entries: dict[str, Any]) -> list[dict[str, Any]]:
    program = folder / "bin/sbatch"
    program.parent.mkdir()
    program.write_text(SBATCH.format(calls=folder / "calls"))
    program.chmod(0o755)
    (folder / "plan").write_text("\n".join(json.dumps(entry) for entry in entries))
    environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(folder)}
    command = [sys.executable, "-m", "tiresias.sandbox.replay_submitter", str(folder / "plan"), str(folder / "log")]
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
    assert calls[1].startswith("--parsable ")
    assert calls[1].endswith("/job.sh --own argument")
    assert str(script) not in calls[1]  # tsbatch submitted its own copy, with the supervisor in it


def test_a_refusal_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    log = submit(
        tmp_path,
        {"job": "a", "at": 0, "command": ["sbatch", "refuse"]},
        {"job": "b", "at": 0, "command": ["sbatch", "script"]},
    )
    assert (log[0]["error"], log[0]["id"]) == ("sbatch: error: no such partition", "")
    assert (log[1]["error"], log[1]["id"]) == ("", "12")


def test_jobs_wait_for_their_moment(tmp_path: Path) -> None:
    soon = time.time() + 1.5
    (entry,) = submit(tmp_path, {"job": "a", "at": soon, "command": ["sbatch", "script"]})
    assert entry["time"] >= soon
