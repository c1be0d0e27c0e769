"""A job's command between registration and end: started again after a failure, ended once."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.polling import pauses
from tiresias.errors import UsageError
from tiresias.services.parameter_service.agent import register
from tiresias.services.parameter_service.agent.service_job import read_job_file, service_job

# its arguments: the exit codes of the command's runs, one after the other
PROGRAM = """
import sys
from tiresias.errors import Unavailable
from tiresias.services.parameter_service.agent import registered_program
from tiresias.services.parameter_service.agent.registered_program import RegisteredProgram
registered_program.END_S = 1.0
COMMAND = '''
import os, pathlib, signal, sys, time
log = pathlib.Path("runs")
count = len(log.read_text().split()) if log.exists() else 0
with log.open("a") as file:
    print(os.environ["TIRESIAS_PARAMETER_SERVICE"], file=file)
code = int(sys.argv[1:][count])
if code < 0:
    time.sleep(60)
sys.exit(code)
'''
def end():
    print("ended", flush=True)
    raise Unavailable("no manager")
command = [sys.executable, "-c", COMMAND, *sys.argv[2:]]
program = RegisteredProgram("/job.json", command, int(sys.argv[1]), lambda: print("registered", flush=True), end)
sys.exit(program.run())
"""


def started(folder: Path, restarts: int, *codes: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(restarts), *map(str, codes)]
    return subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize(
    ("restarts", "codes", "expected"),
    [(3, (0,), 0), (3, (99,), 99), (3, (1, 0), 0), (2, (1, 1, 7), 7), (0, (5,), 5), (3, (1, 99), 99)],
)
def test_a_command_starts_again_after_a_failure(
    tmp_path: Path, restarts: int, codes: tuple[int, ...], expected: int
) -> None:
    process = started(tmp_path, restarts, *codes)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == expected, errors
    assert out.split()[: len(codes)] == ["registered"] * len(codes)
    assert set(out.split()[len(codes) :]) == {"ended"}, "repeated, as a standby may take over"
    assert (tmp_path / "runs").read_text().split() == ["/job.json"] * len(codes)
    assert "the manager removes the silent job later" in errors
    assert errors.count("it starts again") == len(codes) - 1


def test_a_signal_goes_to_the_command_and_ends_the_job(tmp_path: Path) -> None:
    process, pause = started(tmp_path, 3, -1), pauses()
    deadline = time.monotonic() + 60
    while not (tmp_path / "runs").exists():
        assert time.monotonic() < deadline
        pause()
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert out.split() == ["registered", "ended"]


def test_a_preempted_command_is_not_started_again_whatever_its_exit_code(tmp_path: Path) -> None:
    """A rank that has saved leaves first, and srun kills the others."""
    (tmp_path / "stop-2").touch()
    for restart, runs in (("2", 1), ("1", 2)):
        command = [sys.executable, "-c", PROGRAM, "1", "143", "143"]
        environment = {**os.environ, "TIRESIAS_CONTROL": str(tmp_path), "TIRESIAS_RESTART": restart}
        done = subprocess.run(
            command, cwd=tmp_path, text=True, capture_output=True, check=False, env=environment, timeout=60
        )
        assert done.returncode == 143, done.stderr
        assert done.stdout.split().count("registered") == runs
        (tmp_path / "runs").unlink()


def test_a_command_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    code = PROGRAM.replace("[sys.executable, ", "['no-such-program', ")
    done = subprocess.run([sys.executable, "-c", code, "3"], cwd=tmp_path, text=True, capture_output=True, check=False)
    assert done.returncode == 127
    assert "no-such-program: No such file or directory" in done.stderr
    assert set(done.stdout.split()) == {"registered", "ended"}


def test_each_registration_begins_a_run_and_keeps_the_key(tmp_path: Path) -> None:
    out = tmp_path / "job.json"
    args = argparse.Namespace(job="a", manager=Path("manager"), servers=2, workers=1, compress="none")
    first, second = register._new_run(out, args), register._new_run(out, args)
    assert (first["run"], second["run"]) == (1, 2)
    assert first["key"] == second["key"]
    assert out.stat().st_mode & 0o777 == 0o600
    environment = {
        "TIRESIAS_PARAMETER_SERVICE": str(out),
        "SLURM_RESTART_COUNT": "7",
        "TORCHELASTIC_RESTART_COUNT": "3",
    }
    assert service_job(environment).run == 2003
    content = read_job_file(out)
    del content["run"]
    out.write_text(json.dumps(content))
    assert service_job(environment).run == 7003, "a job file without a run: Slurm's restart count"
    out.write_text(json.dumps({**content, "run": "x"}))
    with pytest.raises(UsageError, match="no job file"):
        read_job_file(out)
    out.write_text(json.dumps({**content, "job": "b"}))
    with pytest.raises(UsageError, match="is the file of job b"):
        register._new_run(out, args)


def test_without_a_manager_the_command_does_not_start(tmp_path: Path) -> None:
    words = ["--job", "a", "--manager", str(tmp_path / "none"), "--servers", "1", "--workers", "1", "--timeout", "0"]
    command = [sys.executable, "-m", "tiresias.services.parameter_service.agent.register", *words, "--", "touch", "x"]
    done = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, check=False, env=dict(os.environ))
    assert done.returncode == 1
    assert "no manager of the parameter service" in done.stderr
    assert not (tmp_path / "x").exists()
