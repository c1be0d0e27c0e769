"""What users put into batch scripts: several programs, launchers with sessions of their own, traps, things in the background."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tiresias.checkpoint import Store
from tiresias.wrappers import job_processes, registered_ranks

Site = Any  # conftest.py
PYTHON = shlex.quote(sys.executable)
PROGRAM = Path(__file__).with_name("training.py")

# As torchrun: a session for each worker; one that fails ends all; then all are started again, --max-restarts times.
LAUNCHER = """
import subprocess, sys, time
for attempt in range(3):
    time.sleep(1.2 * bool(attempt))  # a worker that imports torch takes longer before it trains
    workers = [subprocess.Popen(sys.argv[1:], start_new_session=True)]
    while all(worker.poll() is None for worker in workers):
        time.sleep(0.01)
    if not any(worker.wait() for worker in workers):
        sys.exit(0)
    if attempt < 2:
        print("worker group restarts", flush=True)
sys.exit(1)
"""
# A rank that does not listen, in a session that no signal to the script's group reaches.
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(1000)"


def alive(mark: str) -> list[int]:
    """Processes of this test whose command line holds `mark`."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            try:
                if mark.encode() in (path / "cmdline").read_bytes():
                    found.append(int(path.name))
            except OSError:
                continue
    return found


def test_a_launcher_that_restarts_its_workers_does_not_train_on(site: Site) -> None:
    job = site.start(f"exec {PYTHON} -c {shlex.quote(LAUNCHER)} {site.train}").preempt()
    assert job.send(signal.SIGTERM).end() == 99
    assert job.log.read_text().count("worker group restarts") == 1
    assert len(re.findall(r"run 0 (?:starts|resumes)", job.log.read_text())) == 1, "a second worker group trains"
    time.sleep(0.2)
    assert alive(str(site.folder)) == []
    last = site.start(f"exec {PYTHON} -c {shlex.quote(LAUNCHER)} {site.train}", restart=1)
    assert last.end() == 0
    assert (site.folder / "result").read_text() == site.trained()


def test_what_runs_in_other_sessions_ends_with_the_run(site: Site) -> None:
    deaf = f"{PYTHON} -c {shlex.quote(DEAF)} {site.folder}"
    job = site.start(f"setsid {deaf} & {site.train}; sleep 1000").until_logged("deaf").preempt()
    assert "killed what was left of the run: 1 processes here" in job.log.read_text()
    assert [pid for pid in alive(str(site.folder)) if pid in alive("time.sleep(1000)")] == []
    assert job.send(signal.SIGTERM).end() == 99


def test_another_jobs_processes_are_not_touched(site: Site) -> None:
    """A job that submits a job hands its environment down, all but SLURM_JOB_ID."""
    other = site.start("sleep 1000", job="8", TIRESIAS_CONTROL=str(site.control("7"))).until(
        lambda report: report.state == "running"
    )
    job = site.start(site.train).preempt()
    assert other.process.poll() is None
    assert job_processes.kill_all({"TIRESIAS_CONTROL": str(site.control("7")), "SLURM_JOB_ID": "9"}) == 0
    assert job.send(signal.SIGTERM).end() == 99


def test_programs_one_after_the_other(site: Site) -> None:
    """Each in a folder of its own, as two programs need it: the second is signalled, the first finds its work done."""
    program = (
        "import os, sys, time; from tiresias.checkpoint import Checkpointer\n"
        "c = Checkpointer.from_env(os.environ['TIRESIAS_CHECKPOINT_DIR'] + '/' + sys.argv[1]); f = c.restore()\n"
        "n = f.step if f else 0; print(sys.argv[1], 'from', n, flush=True)\n"
        "while n < int(sys.argv[2]):\n time.sleep(0.01); n += 1\n"
        " if c.should_stop(n): c.save(n, {'n': n}); c.exit_for_requeue()\n"
        "c.save(n, {'n': n})"
    )
    script = f"for one in 'a 5' 'b 300'; do {PYTHON} -c {shlex.quote(program)} $one || exit; done; echo both"
    job = site.start(script).until_logged("b from 0").preempt()
    step = job.report().step
    assert job.send(signal.SIGTERM).end() == 99
    last = site.start(script, restart=1)
    assert last.end() == 0
    assert "a from 5\n" in last.log.read_text()
    assert re.findall(r"b from (\d+)\n", last.log.read_text()) == [str(step)]


def test_a_request_after_its_program_has_ended(site: Site) -> None:
    """`train; evaluate`: nothing can be saved while it evaluates, and nothing is waited for."""
    job = site.start(f"{site.train}; echo evaluating; while [ ! -e done ]; do sleep 0.05; done")
    job.until_logged("evaluating").send(signal.SIGUSR2).until_logged("the program has ended: the script continues")
    assert job.report().state == "running"
    (site.folder / "done").touch()
    assert job.end() == 0


def test_two_programs_at_once_both_save(site: Site) -> None:
    """The one that takes longer is not killed when the other has left."""
    slow = (
        "import sys, time; from tiresias.checkpoint import Checkpointer; c = Checkpointer.from_env('slow');"
        "c.restore(); n = 0\nwhile not c.should_stop(n): time.sleep(0.01); n += 1\n"
        "time.sleep(3); c.save(n, {'n': n}); c.exit_for_requeue()"
    )
    job = site.start(f"{PYTHON} -c {shlex.quote(slow)} & {site.train} & wait; sleep 1000")
    job.until(lambda report: len(registered_ranks.names(site.control() / "ranks")) == 2 and report.ready).preempt()
    assert Store(site.folder / "slow").steps(), job.log.read_text()
    assert Store(site.folder / "checkpoints" / "7").steps()
    assert job.send(signal.SIGTERM).end() == 99


def test_a_launcher_that_kills_the_others_when_one_leaves(site: Site) -> None:
    """srun --kill-on-bad-exit: rank 0 is dead before it could report that all is saved, and the exit code is 137."""
    killed = (
        "import os, time; from tiresias.checkpoint import Checkpointer; c = Checkpointer.from_env(); c.restore(); n = 1\n"
        "while not c.should_stop(n): time.sleep(0.01); n += 1\n"
        "c.save(n, {'n': n}); os.kill(os.getpid(), 9)"
    )
    job = site.start(f"{PYTHON} -c {shlex.quote(killed)}").preempt()
    assert job.report().step > 0
    assert job.send(signal.SIGTERM).end() == 99


def test_the_scripts_own_traps_run(site: Site) -> None:
    """Those for its end also when the rest of the script is not run: they copy results from the node's disk."""
    traps = "trap 'echo usr1' USR1; trap 'echo mine >> trapped' EXIT; trap 'exit 9' TERM"
    job = site.start(f"{traps}\n{site.train} & wait; wait; sleep 1000 & wait").until(lambda report: report.ready)
    job.send(signal.SIGUSR1).until_logged("usr1").preempt()
    assert (site.folder / "trapped").read_text() == "mine\n"
    assert job.send(signal.SIGTERM).end() == 99


def test_a_trap_that_never_ends_is_cut_off(site: Site) -> None:
    job = site.start(f"trap 'sleep 1000; echo out' TERM\n{site.train}\nsleep 1000 & wait").preempt()
    assert "out" not in job.log.read_text().split()
    assert job.send(signal.SIGTERM).end() == 99


def test_a_container_without_slurms_commands(site: Site) -> None:
    """Nothing in the job asks for scontrol: the requeue comes from outside."""
    (site.folder / "bin").mkdir()
    job = site.start(f"export PATH={site.folder}/bin; exec {site.train}", PATH="/usr/bin:/bin").preempt()
    assert job.send(signal.SIGTERM).end() == 99
    assert "scontrol" not in job.log.read_text()
