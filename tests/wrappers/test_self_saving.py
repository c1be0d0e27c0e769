"""A job whose program saves by itself, run by hand: TIRESIAS_CHECKPOINT=signal:NAME:FOLDER."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tiresias.errors import UsageError
from tiresias.wrappers import folder_changes, self_saving
from tiresias.wrappers.receivers import JobProcess, choose

Site = Any  # conftest.py
PROGRAM = Path(__file__).with_name("self_saving_program.py")
STEPS = 400
OPTION = {"TIRESIAS_CHECKPOINT": "signal:TERM:out"}


def command(habit: str, name: str = "TERM") -> str:
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(PROGRAM))} {STEPS} 0.005 {habit} {name}"


def is_training(site: Site, job: Any, least: int = 1) -> Any:
    """Until the run has made a step of its own."""
    losses = site.folder / "losses"
    already = len(losses.read_text().split("\n")) if losses.exists() else 0
    return job.until(lambda report: losses.exists() and len(losses.read_text().split("\n")) >= already + least)


def preempt(site: Site, job: Any) -> Any:
    is_training(site, job)
    assert job.report().ready, "the controller has to see from the start that this run can save"
    return job.send(signal.SIGUSR2).until(lambda report: report.state == "parked")


@pytest.mark.parametrize(("habit", "name"), [("good", "TERM"), ("requeues", "USR1")])
def test_three_preemptions_lose_nothing(site: Site, habit: str, name: str) -> None:
    option = {"TIRESIAS_CHECKPOINT": f"signal:{name}:out"}
    for restart in range(3):
        job = preempt(site, site.start(f"{command(habit, name)}\necho and then", restart=restart, **option))
        assert job.report().step == restart + 1
        assert job.send(signal.SIGTERM).end() == 99
        log = job.log.read_text()
        assert f"preemption requested: sent SIG{name} to 1 processes here" in log
        assert (
            "saved by itself: 1 files (0.0 MiB) changed in out, contents not verified and waits for the requeue" in log
        )
    last = site.start(command(habit, name), restart=3, **option)
    assert last.end() == 0
    assert (site.folder / "result").read_text() == site.trained(STEPS)
    steps = [int(line.split()[0]) for line in (site.folder / "losses").read_text().splitlines()]
    assert steps == list(range(1, STEPS + 1)), "no step is trained twice, and none after a save"


def test_the_last_task_of_an_array_signals_its_own_steps_alone(site: Site) -> None:
    """Its SLURM_JOB_ID is that of the array: `scancel --signal` of that one signals the steps of all tasks."""
    scancel, called = site.folder / "scancel", site.folder / "called"
    scancel.write_text('#!/bin/sh\necho "$@" > called.new && mv called.new called\n')
    scancel.chmod(0o755)
    array = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3", "SLURM_JOB_NUM_NODES": "2"}
    job = site.start(
        f"SLURM_STEP_NUM_TASKS=2 {command('good')}", PATH=f"{site.folder}:{os.environ['PATH']}", **array, **OPTION
    )
    is_training(site, job)
    job.send(signal.SIGUSR2).until(lambda report: called.exists())
    assert called.read_text() == "--signal=TERM 7_3\n"


@pytest.mark.parametrize(
    ("habit", "words"),
    [
        ("fails", "ended with exit code 3 after SIGTERM, but out did not change"),
        (
            "half",
            "ended with exit code 0 after SIGTERM, but out is incomplete (out/checkpoint-is-incomplete.txt is there)",
        ),
    ],
)
def test_a_failed_save_costs_no_more_than_a_requeue(site: Site, habit: str, words: str) -> None:
    job = preempt(site, site.start(command(habit), **OPTION))
    job.until_logged(f"{words}: it goes back to what its program saved before and waits for the requeue")
    assert job.report().step == -1
    assert job.send(signal.SIGTERM).end() == 99


def test_a_program_that_does_not_handle_the_signal_yet_gets_it_later(site: Site) -> None:
    script = f"while [ ! -e go ]; do sleep 0.01; done\nexec {command('good')}"
    job = site.start(script, **OPTION).until(lambda report: report.ready).send(signal.SIGUSR2)
    job.until_logged("SIGTERM is sent once a process of the job handles it")
    (site.folder / "go").touch()
    job.until(lambda report: report.state == "parked")
    assert job.report().step == 1


def test_a_script_that_ends_before_it_could_save_has_ended(site: Site) -> None:
    job = site.start("while [ ! -e go ]; do sleep 0.01; done; exit 4", **OPTION)
    job.until(lambda report: report.ready).send(signal.SIGUSR2).until_logged("is sent once")
    (site.folder / "go").touch()
    assert job.end() == 4
    assert "the script ended before a process of it handled SIGTERM" in job.log.read_text()


def test_other_calls_of_scontrol_reach_slurm(site: Site) -> None:
    (site.folder / "slurm").mkdir()
    real = site.folder / "slurm" / "scontrol"
    real.write_text('#!/bin/sh\necho "real $*"\n')
    real.chmod(0o755)
    script = f'export PATH="$PATH:{real.parent}"\nscontrol requeue "$SLURM_JOB_ID"; scontrol show job "a b"'
    job = site.start(script, **OPTION)
    assert job.end() == 0
    assert job.log.read_text().endswith("real requeue 7\nreal show job a b\n")


def test_the_option_is_not_passed_on_to_jobs_of_the_script(site: Site) -> None:
    job = site.start('echo "option: $TIRESIAS_CHECKPOINT."', **OPTION)
    assert job.end() == 0
    assert "option: .\n" in job.log.read_text()


@pytest.mark.parametrize("text", ["signal:TERM", "signal:TERM: ", "signal:KILL:out", "signal:NO:out", "save", "signal"])
def test_an_option_that_cannot_work_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="TIRESIAS_CHECKPOINT"):
        self_saving.parse(text)


def test_the_folder_may_hold_colons_and_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "x")
    option = self_saving.parse("signal:sigusr1:runs:1/$NAME")
    assert (option.number, option.path) == (signal.SIGUSR1, Path("runs:1/x"))


def process(pid: int, parent: int, name: str = "python", handles: bool = True, is_rank: bool = False) -> JobProcess:
    return JobProcess(pid, 1, parent, name, handles, is_rank)


@pytest.mark.parametrize(
    ("processes", "chosen"),
    [
        ([process(1, 0, "bash", False), process(2, 1), process(3, 2)], [2]),  # 3: a worker of a data loader
        ([process(1, 0, "srun"), process(9, 8), process(10, 8)], [9, 10]),
        (
            [process(1, 0), process(2, 1, is_rank=True), process(3, 1, is_rank=True), process(4, 2, is_rank=True)],
            [2, 3],
        ),
        ([process(1, 0), process(2, 1, handles=False, is_rank=True)], []),  # torchrun, whose worker is not ready
        ([process(1, 2), process(2, 1)], []),  # a loop, which /proc may show for a moment
    ],
)
def test_the_signal_goes_to_the_topmost_processes_below_launchers(
    processes: list[JobProcess], chosen: list[int]
) -> None:
    assert [one.pid for one in choose(processes)] == chosen


def test_a_distributed_checkpoint_is_whole_once_it_has_its_metadata() -> None:
    before = {"step-1/__0_0.distcp": (1, 5, 0), "step-1/.metadata": (2, 5, 0)}
    data = {**before, "step-2/__0_0.distcp": (3, 5, 0)}
    assert folder_changes.compare(before, data).incomplete == "step-2/.metadata is missing"
    assert folder_changes.compare(before, {**data, "step-2/.metadata": (4, 5, 0)}).is_save
    assert not folder_changes.compare(before, before).is_save
    assert not folder_changes.compare(before, {**before, "empty": (9, 0, 0)}).is_save


def test_a_pattern_leaves_out_the_log_beside_the_checkpoints(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint-*"
    (tmp_path / "checkpoint-1").mkdir()
    (tmp_path / "checkpoint-1" / "weights").write_text("1")
    before = folder_changes.file_states(place)
    (tmp_path / "log").write_text("a line")
    assert not folder_changes.since(before, place).is_save
    (tmp_path / "checkpoint-2").mkdir()
    (tmp_path / "checkpoint-2" / "weights").write_text("2")
    assert folder_changes.since(before, place).files == (f"{tmp_path}/checkpoint-2/weights",)
    assert len(folder_changes.file_states(tmp_path / "log")) == 1
