"""The supervisor of a job that is preempted: it saves, waits for the requeue and resumes; only Slurm's part is played."""

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
from tiresias.protocol import control
from tiresias.wrappers import registered_ranks


def test_preempted_and_resumed_ends_as_if_it_never_was(site: Any) -> None:
    steps = []
    for restart in range(3):
        job = site.start(site.train, restart=restart).preempt()
        steps.append(job.report().step)
        began = time.monotonic()
        assert job.send(signal.SIGTERM).end() == 99
        assert time.monotonic() - began < 10, "it waited for the end of TIRESIAS_PARK_TIMEOUT"
        assert f"run {restart} saved step {steps[-1]} and waits for the requeue" in job.log.read_text()
    last = site.start(site.train, restart=3)
    assert last.end() == 0
    assert f"run 3 resumes from step {steps[-1]}" in last.log.read_text()
    assert sorted(set(steps)) == steps
    assert (site.folder / "result").read_text() == site.trained()


def test_without_a_requeue_it_goes_on_by_itself(site: Any) -> None:
    job = site.start(site.train, TIRESIAS_PARK_TIMEOUT="0.3").preempt()
    assert job.end() == 0
    words = re.search(
        r"no requeue came in 0.3 s: the script runs again, from step (\d+)\n.*run 0 resumes from step (\d+)",
        job.log.read_text(),
    )
    assert words
    assert words[1] == words[2]
    assert not control.stop_file(site.control(), 0).exists()
    assert (site.folder / "result").read_text() == site.trained()


def test_a_signal_on_the_way_to_the_training_loop_is_kept(site: Any) -> None:
    """A job whose program could save in an earlier run is not killed by a signal that comes while it loads."""
    site.start(site.train).preempt().send(signal.SIGTERM).end()
    job = site.start(f"echo up; sleep 0.5; {site.train}", restart=1).until_logged("up").send(signal.SIGUSR2)
    job.until(lambda report: report.state == "parked")
    assert job.send(signal.SIGTERM).end() == 99


def test_more_signals_change_nothing(site: Any) -> None:
    job = site.start(site.train).until(lambda report: report.ready)
    for _ in range(20):
        job.send(signal.SIGUSR2)
    job.until(lambda report: report.state == "parked").send(signal.SIGUSR2).send(signal.SIGUSR1)
    assert job.send(signal.SIGTERM).end() == 99
    assert job.log.read_text().count("preemption requested") == 1


def test_the_rest_of_the_script_is_not_run(site: Any) -> None:
    """`train; evaluate`: evaluating half a model is no use, and the next run does it all again. Background processes end too."""
    job = site.start(f"sleep 1000 & echo $!; {site.train}; sleep 1000; touch evaluated").preempt()
    assert job.send(signal.SIGTERM).end() == 99
    assert not (site.folder / "evaluated").exists()
    sleeper = Path(f"/proc/{job.log.read_text().split()[0]}/stat")
    assert not sleeper.exists() or ") Z " in sleeper.read_text()


def test_a_launcher_may_hide_the_exit_code(site: Any) -> None:
    """torchrun ends with 1 when its workers end with 99."""
    job = site.start(f"{site.train} || exit 1").preempt()
    assert job.send(signal.SIGTERM).end() == 99


def test_a_script_that_fails_while_it_is_asked_to_save_has_failed(site: Any) -> None:
    job = site.start(
        f"{site.train} & program=$!; trap 'kill -9 $program; exit 6' USR1; echo up; wait $program; sleep 0.2; exit 6"
    )
    job.until(lambda report: report.ready)
    program = next(int(name.split("-")[-2]) for name in registered_ranks.names(site.control() / control.RANKS))
    os.kill(program, signal.SIGSTOP)
    job.send(signal.SIGUSR2).until(lambda report: report.state == "saving")
    os.kill(program, signal.SIGKILL)
    assert job.end() == 6
    assert job.report().state == "ended"


def test_a_program_that_leaves_without_a_checkpoint_is_not_parked(site: Any) -> None:
    code = (
        "import sys, time; from tiresias.checkpoint import Checkpointer; c = Checkpointer.from_env();"
        "exec('while not c.should_stop(1): time.sleep(0.01)'); c.exit_for_requeue()"
    )
    job = (
        site.start(f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}")
        .until(lambda report: report.ready)
        .send(signal.SIGUSR2)
    )
    assert job.end() == 99
    assert "no checkpoint verifies" in job.log.read_text()
    assert job.report().state == "ended"


BENDS = """
import sys, time
from pathlib import Path
from tiresias.checkpoint import Checkpointer
checkpointer = Checkpointer.from_env()
while not checkpointer.should_stop(1):
    time.sleep(0.01)
folder = checkpointer.save(1, {"weights": bytes(1 << 16)})
data = Path(folder) / "rank-0.bin"
with data.open("r+b") as file:
    file.seek(data.stat().st_size // 2)
    file.write(b"\\1")
checkpointer.exit_for_requeue()
"""


def test_a_checkpoint_with_one_wrong_byte_is_not_parked_for(site: Any) -> None:
    """Its sizes are right: only the hashes show it. A requeue would lose the whole run."""
    program = site.folder / "bends.py"
    program.write_text(BENDS)
    job = site.start(f"{shlex.quote(sys.executable)} {program}").until(lambda report: report.ready)
    job.send(signal.SIGUSR2)
    assert job.end() == 99
    assert "no checkpoint verifies" in job.log.read_text()
    assert job.report().state == "ended"


def test_the_next_run_falls_back_when_the_newest_is_damaged(site: Any) -> None:
    first = site.start(site.train).preempt()
    first.send(signal.SIGTERM).end()
    second = site.start(site.train, restart=1).preempt()
    second.send(signal.SIGTERM).end()
    store = Store(site.folder / "checkpoints" / "7")
    newest, older = store.steps()
    (store.path(newest) / "rank-0.json").write_text("{}")
    third = site.start(site.train, restart=2)
    assert third.end() == 0
    assert f"run 2 resumes from step {older}" in third.log.read_text()
    assert (site.folder / "result").read_text() == site.trained()
