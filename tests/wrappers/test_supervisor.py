"""The supervisor with real scripts, signals and a real training program; only Slurm's part (variables, signals) is played."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tiresias.protocol import control
from tiresias.protocol.job_kind import script_hash
from tiresias.wrappers import batch_script, isolated, previous_job, registered_ranks

# what any script sees


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 99", 99),
        ("exit 137", 137),
        *((f"kill -{n} $$", -n) for n in (1, 2, 9, 11, 15, 34, 64)),
    ],
)
def test_the_job_ends_as_the_script_does(site: Any, script: str, code: int) -> None:
    """By the same exit code or the same signal."""
    job = site.start(script)
    assert job.end() == code
    assert job.report() == control.JobReport(
        0, "ended", False, -1, script=script_hash(f"#!/bin/bash\n{script}\n".encode()), opportunistic="yes"
    )


def test_the_choice_of_opportunistic_runs_is_reported_and_not_inherited(site: Any) -> None:
    """Jobs that the script submits have a choice of their own."""
    job = site.start('test -z "$TIRESIAS_OPPORTUNISTIC"', TIRESIAS_OPPORTUNISTIC="restart")
    assert job.end() == 0
    assert job.report().opportunistic == "restart"


def without_internal_signals(line: str) -> str:
    """posix_spawn(3) of glibc leaves its two internal signals, 32 and 33, ignored."""
    if not line.startswith("SigIgn:"):
        return line
    return f"SigIgn:\t{int(line.split()[1], 16) & ~0x180000000:016x}"


def test_the_script_runs_as_it_would_alone(site: Any) -> None:
    """Same variables, arguments, folder, signals, standard files; its own interpreter; no file remains."""
    script = 'printf "%s|" "$@"; pwd; cat; basename "$0"; grep -E "^Sig(Blk|Ign|Cgt)" /proc/self/status; env | sort'
    env = {"PYTHONPATH": "/my/own", "LD_PRELOAD": "", "PYTHONHOME": "", "TMPDIR": str(site.folder)}
    job = site.start(script, "a b", "", "$x", **env)
    assert job.end() == 0
    plain = subprocess.run(
        ["/bin/bash", "-c", script, "slurm_script", "a b", "", "$x"],
        env={**os.environ, **env},
        cwd=site.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    skip = ("TIRESIAS_", "_=", "SHLVL", "PYTEST", "SLURM_")
    lines = [[line for line in text.splitlines() if not line.startswith(skip)] for text in (job.log.read_text(), plain)]
    supervised, alone = ([without_internal_signals(line) for line in some] for some in lines)
    assert supervised == alone
    assert {path.name for path in site.folder.iterdir()} == {"log-0", "slurm_script-0", "control", "checkpoints"}


def test_the_jobs_variables(site: Any) -> None:
    """Those of a surrounding job do not count."""
    job = site.start(
        "env | grep ^TIRESIAS_ | sort", restart=2, TIRESIAS_CONTROL="/other", TIRESIAS_RESTART="9", TIRESIAS_RUN_ID="x"
    )
    assert job.end() == 0
    assert job.log.read_text().splitlines() == [
        f"TIRESIAS_CHECKPOINT_DIR={site.folder}/checkpoints/7",
        f"TIRESIAS_CHECKPOINT_ROOT={site.folder}/checkpoints",
        f"TIRESIAS_CONTROL={site.control()}",
        f"TIRESIAS_CONTROL_ROOT={site.folder}/control",
        "TIRESIAS_RESTART=2",
        "TIRESIAS_RUN_ID=slurm-7",
        "TIRESIAS_SCRIPT=" + script_hash(b"#!/bin/bash\nenv | grep ^TIRESIAS_ | sort\n"),
        "TIRESIAS_SIGNAL=USR2",
    ]


def test_what_a_job_showed_is_left_for_the_next_of_its_script(site: Any) -> None:
    root = site.folder / "control"

    def shown(script: str) -> previous_job.PreviousJob | None:
        return previous_job.of_script(root, script_hash(f"#!/bin/bash\n{script}\n".encode()))

    assert site.start("exit 3").end() == 3
    assert shown("exit 3") is None, "it may have failed before its program could report anything"
    assert site.start("exit 0", job="8", TIRESIAS_SCRIPT="0" * 16).end() == 0
    assert shown("exit 0") == previous_job.PreviousJob("8", False, -1)
    job = site.start(site.train, job="9")
    step = preempted(site, job, "9")
    assert shown(site.train) == previous_job.PreviousJob("9", True, step)
    assert (root / str(os.getuid()) / "scripts").stat().st_mode & 0o777 == 0o700


def preempted(site: Any, job: Any, name: str) -> int:
    """The step that it saved."""

    def report() -> control.JobReport:
        return control.report(site.folder / "control", os.getuid(), name)

    def until(state: str) -> None:
        deadline = time.monotonic() + 30
        while not (report().ready if state == "ready" else report().state == state):
            assert time.monotonic() < deadline, report()
            time.sleep(0.01)

    until("ready")
    job.send(signal.SIGUSR2)
    until("parked")
    job.send(signal.SIGTERM)
    assert job.end() == control.EXIT_REQUEUE
    return report().step


@pytest.mark.parametrize("kind", ["", "../../etc", "0" * 15, "G" * 16])
def test_only_a_hash_names_a_file(tmp_path: Path, kind: str) -> None:
    previous_job.note(tmp_path / "0" / "7", kind, previous_job.PreviousJob("7", True, 1))
    assert not list(tmp_path.iterdir())


def test_the_run_id_is_the_same_over_all_runs(site: Any) -> None:
    for restart in range(3):
        moment = {"SLURM_JOB_START_TIME": str(1000 + restart), "SLURM_CLUSTER_NAME": "mine"}
        assert site.start("echo $TIRESIAS_RUN_ID", restart=restart, **moment).end() == 0
    assert [(site.folder / f"log-{restart}").read_text() for restart in range(3)] == ["mine-7-1000\n"] * 3


def test_an_array_task_has_its_own_folder(site: Any) -> None:
    job = site.start("echo $TIRESIAS_CONTROL", SLURM_ARRAY_JOB_ID="40", SLURM_ARRAY_TASK_ID="2", job="43")
    assert job.end() == 0
    assert job.log.read_text() == f"{site.control('40_2')}\n"


def test_another_interpreter(site: Any) -> None:
    job = site.start("")
    job.end()
    path = site.folder / "slurm_script-0"
    path.write_bytes(
        path.read_bytes().replace(
            b"#!/bin/bash\n\n", f"#!{sys.executable} -u\nimport sys; sys.exit(len(sys.argv))\n".encode()
        )
    )
    assert (
        subprocess.run(["/bin/sh", str(path), "x", "y"], env={"SLURM_JOB_ID": "8"}, check=False, timeout=60).returncode
        == 3
    )


def test_without_python_on_the_node_the_script_still_runs(site: Any) -> None:
    script = batch_script.compose(
        b"#!/bin/bash\necho args $*; exit 4\n", "/no/python3", str(isolated.LIBRARY), site.roots
    )
    (site.folder / "batch").write_bytes(script)
    done = subprocess.run(
        ["/bin/sh", str(site.folder / "batch"), "1", "2"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (4, "args 1 2\n")
    assert "no /no/python3" in done.stderr


# signals


def test_other_signals_go_to_the_script_and_to_it_alone(site: Any) -> None:
    """As from slurmd: `sbatch --signal=B:USR1@60` reaches the shell, not what it runs."""
    job = site.start(
        "trap 'echo USR1' USR1; trap 'echo TERM; exit 7' TERM; echo up; sleep 100 & while ! wait; do :; done"
    )
    job.until_logged("up").send(signal.SIGUSR1).until_logged("USR1").send(signal.SIGTERM)
    assert job.end() == 7
    assert job.log.read_text().split() == ["up", "USR1", "TERM"]


def test_a_script_that_never_registered_gets_the_checkpoint_signal_itself(site: Any) -> None:
    job = (
        site.start("trap 'echo mine; exit 5' USR2; echo up; while :; do sleep 0.1; done")
        .until_logged("up")
        .send(signal.SIGUSR2)
    )
    assert job.end() == 5
    assert job.report().state == "ended"


def test_slurms_end_of_a_job_is_not_doubled(site: Any) -> None:
    """Slurm sends SIGCONT and SIGTERM to every process of a job, so the script has had them."""
    program = (
        "import os, signal, time; signal.signal(15, lambda *_: os.write(1, b'TERM\\n')); os.write(1, b'up\\n');"
        "exec('while not os.path.exists(\"done\"): time.sleep(0.01)')"
    )
    job = site.start(f"echo $$; exec {shlex.quote(sys.executable)} -c {shlex.quote(program)}").until_logged("up")
    script = int(job.log.read_text().split()[0])
    for process in (script, job.process.pid):
        os.kill(process, signal.SIGCONT)
        os.kill(process, signal.SIGTERM)
    job.until_logged("TERM")
    time.sleep(0.3)  # time for a second one to arrive
    (site.folder / "done").touch()
    assert job.end() == 0
    assert job.log.read_text().split()[1:] == ["up", "TERM"]


def test_only_the_process_that_registered_is_signalled(tmp_path: Path) -> None:
    host = os.uname().nodename
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        for name in (
            f"{host}-{bystander.pid}-1",
            f"elsewhere-{bystander.pid}-1",
            f"{host}-1-1",
            "x",
            f"{host}-99999999999-1",
            "..-1-1",
        ):
            (tmp_path / name).touch()
        assert registered_ranks.send(tmp_path, signal.SIGKILL) == 0
        assert bystander.poll() is None
        bystander.kill()
    assert registered_ranks.send(tmp_path / "none", signal.SIGKILL) == 0
