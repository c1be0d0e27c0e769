"""One rank's Checkpointer: the requests that stop it, and its reports."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiresias.checkpoint import EXIT_REQUEUE, Checkpointer, program_report
from tiresias.checkpoint.agreement import POLL_S
from tiresias.checkpoint.world import World
from tiresias.errors import TiresiasError, UsageError
from tiresias.protocol import control, files
from tiresias.protocol.process_identity import start_ticks


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    folder = control.job_folder(tmp_path, os.getuid(), "12_3")
    folder.mkdir(parents=True)
    return {
        "TIRESIAS_CONTROL": str(folder), "TIRESIAS_CHECKPOINT_DIR": str(tmp_path / "checkpoints/12_3"), "TIRESIAS_RESTART": "2",
        "SLURM_JOB_ID": "14", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3", "SLURM_PROCID": "0", "SLURM_NTASKS": "8",
    }  # fmt: skip


def report(env: dict[str, str], **supervisor: object) -> control.JobReport:
    folder = Path(env["TIRESIAS_CONTROL"])
    control.write(folder, control.SUPERVISOR, {"restart": 2, "state": "running", "step": -1, **supervisor})
    return control.report(folder.parent.parent, os.getuid(), "12_3")


def test_seconds_a_step_are_reported_after_the_first_seconds(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps 5 to 9 take two seconds each; nothing is reported in the first seconds."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    program = program_report.ProgramReport(
        Path(env["TIRESIAS_CONTROL"]), 2, World(0, 1, "x"), Path(env["TIRESIAS_CHECKPOINT_DIR"])
    )
    program.at = 5
    program.started()
    reported = []
    for program.at in (6, 7, 8, 9):
        now += 2.0
        program.publish()
        reported.append(report(env).pace)
    assert reported == [None, None, 2.0, 2.0]


def test_a_run_logs_its_first_step(env: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    checkpointer = Checkpointer.from_env(env=env)
    assert checkpointer.restore() is None
    assert capfd.readouterr().err.endswith("run 2 starts from the beginning\n")
    checkpointer.save(5, {"x": 1})
    assert Checkpointer.from_env(env=env).restore() is not None
    assert capfd.readouterr().err.endswith("run 2 resumes from step 5\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2])
def test_a_signal_stops_at_the_next_step(tmp_path: Path, number: signal.Signals) -> None:
    checkpointer = Checkpointer.from_env(tmp_path, env={})
    assert not checkpointer.should_stop(1)
    os.kill(os.getpid(), number)
    assert checkpointer.should_stop(2)
    assert checkpointer.should_stop(3)


def test_the_signal_can_be_another_one(tmp_path: Path) -> None:
    checkpointer = Checkpointer.from_env(tmp_path, env={"TIRESIAS_SIGNAL": "SIGUSR1"})
    os.kill(os.getpid(), signal.SIGUSR1)
    assert checkpointer.should_stop(1)
    with pytest.raises(UsageError, match="TIRESIAS_SIGNAL='no'"):
        Checkpointer.from_env(tmp_path, env={"TIRESIAS_SIGNAL": "no"})


def test_a_handler_that_was_there_is_called_too(tmp_path: Path) -> None:
    seen = []
    signal.signal(signal.SIGUSR2, lambda number, frame: seen.append(number))
    checkpointer = Checkpointer.from_env(tmp_path, env={})
    os.kill(os.getpid(), signal.SIGUSR2)
    assert checkpointer.should_stop(1)
    assert seen == [signal.SIGUSR2]


def test_the_stop_file_is_seen_and_only_this_runs(env: dict[str, str]) -> None:
    checkpointer = Checkpointer.from_env(env=env)
    folder = Path(env["TIRESIAS_CONTROL"])
    control.stop_file(folder, 1).touch()
    control.stop_file(folder, 3).touch()
    assert not checkpointer.should_stop(1)
    control.stop_file(folder, 2).touch()
    deadline = time.monotonic() + 10 * POLL_S
    while not checkpointer.should_stop(2):
        assert time.monotonic() < deadline


def test_a_signal_during_a_poll_of_the_control_folder_is_not_lost(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_there(path: Path) -> bool:
        os.kill(os.getpid(), signal.SIGUSR2)
        return False

    checkpointer = Checkpointer.from_env(env={**env, "SLURM_NTASKS": "1"})
    monkeypatch.setattr(files, "is_there", is_there)
    assert checkpointer.should_stop(1)


def test_looking_is_cheap(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    checkpointer = Checkpointer.from_env(env=env)
    checkpointer.should_stop(0)
    looks = []
    monkeypatch.setattr(Path, "exists", lambda path: looks.append(path))
    start = time.monotonic()
    while time.monotonic() - start < 0.2:
        checkpointer.should_stop(1)
    assert len(looks) <= 1


def test_ready_begins_with_the_training_loop(env: dict[str, str]) -> None:
    checkpointer = Checkpointer.from_env(env=env)
    assert checkpointer.world.size == 1, "a batch script is one process, whatever SLURM_NTASKS is"
    assert report(env)[:4] == (2, "running", False, -1)
    checkpointer.should_stop(0)
    assert report(env)[:4] == (2, "running", True, -1)
    checkpointer.save(5, {"x": 1})
    assert report(env)[:4] == (2, "running", True, 5)
    assert Checkpointer.from_env(env=env).restore() is not None
    assert report(env)[:4] == (2, "running", False, 5)
    ranks = list(Path(env["TIRESIAS_CONTROL"], control.RANKS).iterdir())
    assert [path.name for path in ranks] == [f"{os.uname().nodename}-{os.getpid()}-{start_ticks(os.getpid())}"]


def test_leaving(env: dict[str, str]) -> None:
    checkpointer = Checkpointer.from_env(env=env)
    checkpointer.save(5, {"x": 1})
    with pytest.raises(SystemExit) as left:
        checkpointer.exit_for_requeue()
    assert left.value.code == EXIT_REQUEUE == 99
    content = control.read(Path(env["TIRESIAS_CONTROL"], control.PROGRAM), os.getuid())
    assert 0 <= content.pop("save") < 60
    assert 0 <= time.time() - content.pop("saved_at") < 60
    assert content == {
        "restart": 2, "protocol": [1, 2], "ready": False, "step": 5, "requeue": True,
        "folder": env["TIRESIAS_CHECKPOINT_DIR"], "at": 5,
    }  # fmt: skip
    assert not list(Path(env["TIRESIAS_CONTROL"], control.RANKS).iterdir()), "a program that left is not waited for"


def test_a_program_that_starts_when_the_run_has_saved_leaves(env: dict[str, str]) -> None:
    """The workers that torchrun starts in the place of those that left. In the next run it trains."""
    checkpointer = Checkpointer.from_env(env=env)
    checkpointer.save(5, {"x": 1})
    with pytest.raises(SystemExit):
        checkpointer.exit_for_requeue()
    with pytest.raises(SystemExit) as left:
        Checkpointer.from_env(env=env)
    assert left.value.code == EXIT_REQUEUE
    assert Checkpointer.from_env(env=env | {"TIRESIAS_RESTART": "3"}).restore() is not None


def test_the_cost_of_a_run_is_reported(env: dict[str, str]) -> None:
    """Seconds of the save, seconds to the first step, steps that are done again: the daemon journals them."""
    Checkpointer.from_env(env=env).save(5, {"x": 1})
    began = time.time() - 3.0
    checkpointer = Checkpointer.from_env(env=env)
    found = report(env, began=began, reached=9)
    assert (found.restore, found.redone, found.saved_at) == (None, None, None)
    before = checkpointer.restore()
    assert before is not None
    assert report(env).saved_at == before.time
    checkpointer.should_stop(6)
    found = report(env, began=began, reached=9)
    assert found.restore is not None
    assert 3.0 <= found.restore < 60
    assert (found.resumed, found.redone, found.at) == (5, 4, 6)


@pytest.mark.parametrize("lie", [True, "1", None, [], 1e300, float("nan"), float("inf"), -5, 10**30])
def test_a_lie_about_costs_is_bounded(env: dict[str, str], lie: object) -> None:
    folder = Path(env["TIRESIAS_CONTROL"])
    control.write(
        folder, control.PROGRAM, {"restart": 2, "save": lie, "ready_at": 1e9, "resumed": 0, "at": lie, "saved_at": lie}
    )
    found = report(env, began=lie, reached=lie, why=5)
    assert found.save is None or 0 <= found.save <= control.LONGEST
    assert found.restore is None or 0 <= found.restore <= control.LONGEST
    assert found.redone is None
    assert found.saved_at is None or 0 < found.saved_at < 1e12
    assert found.why == ""


@pytest.mark.parametrize("later", [{"restart": 3}, {"restart": 2, "start": 1005}, {"restart": 1, "start": 1005}])
def test_a_run_that_was_overtaken_saves_and_reports_nothing(env: dict[str, str], later: dict[str, int]) -> None:
    """Also by a run whose restart count is not higher: a killed slurmctld has forgotten a start, or requeues."""
    checkpointer = Checkpointer.from_env(env=env | {"SLURM_JOB_START_TIME": "1000"})
    checkpointer.save(5, {"x": 1})
    place = Path(env["TIRESIAS_CONTROL"])
    control.write(place, control.SUPERVISOR, {"state": "running"} | later)
    control.write(place, control.PROGRAM, {"restart": later["restart"], "step": 5})  # by the later run
    with pytest.raises(TiresiasError, match="this is run 2 and a later run of the job has begun"):
        checkpointer.save(6, {"x": 2})
    assert checkpointer.store.steps() == [5]
    checkpointer._program.publish()
    assert control.read(place / control.PROGRAM, os.getuid()) == {"restart": later["restart"], "step": 5}


@pytest.mark.parametrize("other", [{"restart": 3, "start": 900}, {"restart": 2, "start": 1000}, {"restart": 2}, {}])
def test_a_report_of_an_earlier_run_stops_no_save(env: dict[str, str], other: dict[str, int]) -> None:
    """The restart count of an earlier run is higher where slurmctld has forgotten its requeues."""
    checkpointer = Checkpointer.from_env(env=env | {"SLURM_JOB_START_TIME": "1000"})
    control.write(Path(env["TIRESIAS_CONTROL"]), control.SUPERVISOR, {"state": "running"} | other)
    checkpointer.save(6, {"x": 2})
    assert report(env, restart=2).step == 6


def test_variables_of_another_job_are_ignored(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a job that was submitted by plain sbatch from within a managed job."""
    monkeypatch.chdir(tmp_path)
    checkpointer = Checkpointer.from_env(env={**env, "SLURM_ARRAY_TASK_ID": "4"})
    assert checkpointer.store.root == Path("checkpoints")
    assert not Path(env["TIRESIAS_CONTROL"], control.PROGRAM).exists()


def test_without_a_control_folder_training_goes_on(env: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    Path(env["TIRESIAS_CONTROL"]).rmdir()
    Path(env["TIRESIAS_CONTROL"]).touch()
    checkpointer = Checkpointer.from_env(env=env)
    assert not checkpointer.should_stop(1)
    checkpointer.save(1, {"x": 1})
    assert "this program cannot receive checkpoint requests" in capfd.readouterr().err


def test_a_control_folder_that_was_removed_is_made_again(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Or was made while the file system was away. By each program that starts, and by those that are there."""
    folder = Path(env["TIRESIAS_CONTROL"])
    shutil.rmtree(folder.parent)
    checkpointer = Checkpointer.from_env(env={**env, "TIRESIAS_SUBMISSION": "a"})
    assert control.submission_of(folder) == "a"
    assert len(list((folder / control.RANKS).iterdir())) == 1
    shutil.rmtree(folder.parent)
    monkeypatch.setattr(program_report, "PROGRESS_S", 0.0)
    assert not checkpointer.should_stop(1)
    assert control.submission_of(folder) == "a"
    assert len(list((folder / control.RANKS).iterdir())) == 1
    control.stop_file(folder, 2).touch()
    time.sleep(POLL_S)
    assert checkpointer.should_stop(2)


def test_a_job_that_never_had_a_control_folder_saves_in_its_own_place(env: dict[str, str]) -> None:
    """Else it would begin anew in the folder where it was submitted, or go on from what another job saved there."""
    Checkpointer.from_env(env=env).save(1, {"x": 1})
    alone = Checkpointer.from_env(env={name: value for name, value in env.items() if name != "TIRESIAS_CONTROL"})
    assert alone.store.root == Path(env["TIRESIAS_CHECKPOINT_DIR"])
    assert alone.store.steps() == [1]


def test_a_checkpoint_folder_named_by_the_script_itself_is_used(env: dict[str, str], tmp_path: Path) -> None:
    assert (
        Checkpointer.from_env(env={**env, "TIRESIAS_CHECKPOINT_DIR": str(tmp_path / "mine")}).store.root
        == tmp_path / "mine"
    )


def test_what_an_older_job_left_in_the_control_folders_place_is_about_that_one(env: dict[str, str]) -> None:
    """Its mount came back and hides the folder that this job had made meanwhile."""
    folder = Path(env["TIRESIAS_CONTROL"])
    control.mark(folder, "a")
    checkpointer = Checkpointer.from_env(env={**env, "TIRESIAS_SUBMISSION": "b"})
    control.write(folder, control.SUPERVISOR, {"restart": 3, "state": "running"})
    control.stop_file(folder, 2).touch()
    assert not checkpointer.should_stop(1)
    checkpointer.save(1, {"x": 1})
    control.write(folder, control.PROGRAM, {"restart": 2, "requeue": True})
    Checkpointer.from_env(env={**env, "TIRESIAS_SUBMISSION": "b"})
    control.write(folder, control.PROGRAM, {"restart": 2, "requeue": True})
    with pytest.raises(SystemExit):
        Checkpointer.from_env(env={**env, "TIRESIAS_SUBMISSION": "a"})


def _wait_for_signals(ready: str) -> None:
    Path(ready).touch()
    time.sleep(60)


def test_a_forked_worker_dies_of_sigterm_and_ignores_the_signal(tmp_path: Path) -> None:
    """As data loaders' workers are ended; a signal to the whole step reaches them too. So after a second Checkpointer."""
    for _ in range(2):
        Checkpointer.from_env(tmp_path, env={})
    worker = multiprocessing.get_context("fork").Process(target=_wait_for_signals, args=(str(tmp_path / "ready"),))
    worker.start()
    deadline = time.monotonic() + 20
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert worker.pid
    os.kill(worker.pid, signal.SIGUSR2)
    worker.join(0.2)
    assert worker.exitcode is None
    worker.terminate()
    worker.join(20)
    assert worker.exitcode == -signal.SIGTERM


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, (0, 1)),
        ({"RANK": "1", "WORLD_SIZE": "4"}, (1, 4)),
        ({"RANK": "4", "WORLD_SIZE": "4"}, (0, 1)),
        ({"RANK": "x", "WORLD_SIZE": "4"}, (0, 1)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, (0, 1)),
        ({"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4"}, (2, 4)),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "RANK": "7", "WORLD_SIZE": "8"}, (7, 8)),
    ],
)
def test_ranks_and_sizes(env: dict[str, str], expected: tuple[int, int]) -> None:
    assert World.from_env(env)[:2] == expected


def test_a_launch_is_the_same_for_its_ranks_and_new_in_each_run() -> None:
    step = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_JOB_ID": "5", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0"}
    launches = [
        World.from_env(env).launch
        for env in (
            step,
            {**step, "SLURM_PROCID": "1"},
            {**step, "SLURM_STEP_ID": "1"},
            {**step, "SLURM_RESTART_COUNT": "1"},
        )
    ]
    assert launches[0] == launches[1]
    assert len(set(launches)) == 3
    assert "/" not in World.from_env({**step, "SLURM_JOB_ID": "../x"}).launch
