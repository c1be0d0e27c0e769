"""The adapter of submitit: what it submits, and what it decides in a job. tests/slurm_plugin/controller has it on a real Slurm."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

submitit = pytest.importorskip("submitit", reason="submitit is not installed (make test installs it)")

from submitit.helpers import Checkpointable  # noqa: E402
from submitit.slurm.slurm import SlurmExecutor  # noqa: E402

from tiresias.checkpoint.adapters import submitit as adapter  # noqa: E402
from tiresias.errors import UsageError  # noqa: E402
from tiresias.protocol import control, requeue_request  # noqa: E402

NUMBER = signal.SIGUSR2


class Function(Checkpointable):
    """checkpoint() returns None, raises, or does what submitit does."""

    def __init__(self, habit: str) -> None:
        self.habit = habit

    def __call__(self) -> None:
        """It is never run here."""

    def checkpoint(self, *args: Any, **kwargs: Any) -> Any:
        if self.habit == "raises":
            raise RuntimeError("no space")
        return None if self.habit == "none" else super().checkpoint(*args, **kwargs)


@pytest.fixture
def requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> requeue_request.Requests:
    """Of a run that the supervisor has asked to save."""
    monkeypatch.setenv("TIRESIAS_CONTROL", str(tmp_path / "1" / "7"))
    monkeypatch.setenv("TIRESIAS_RESTART", "2")
    (tmp_path / "1" / "7").mkdir(parents=True)
    control.stop_file(tmp_path / "1" / "7", 2).touch()
    monkeypatch.setattr(requeue_request, "WAIT_S", 0.0)
    found = requeue_request.from_env()
    assert found is not None
    return found


def handler(folder: Path, habit: str, requeued: list[int]) -> adapter.Handler:
    delayed = submitit.core.utils.DelayedSubmission(Function(habit))
    delayed.set_timeout(5, 3)
    environment = SimpleNamespace(global_rank=0, _requeue=requeued.append)
    return adapter.Handler(environment, SimpleNamespace(submitted_pickle=folder / "7_submitted.pkl"), delayed)


def supervisor_requests(requests: requeue_request.Requests, why: str) -> None:
    (requests.asked.parent / control.SUPERVISOR).write_text(json.dumps({"restart": 2, "why": why}))


@pytest.mark.parametrize(("why", "left"), [("", 3), ("limit", 2)])
def test_only_a_save_for_the_time_limit_counts_as_a_time_out(
    requests: requeue_request.Requests, tmp_path: Path, why: str, left: int
) -> None:
    """submitit itself counts each signal of a job of five minutes."""
    supervisor_requests(requests, why)
    requeued: list[int] = []
    with pytest.raises(SystemExit):
        handler(tmp_path, "saves", requeued).checkpoint_and_try_requeue(NUMBER)
    assert requeued == [left]
    assert submitit.core.utils.DelayedSubmission.load(tmp_path / "7_submitted.pkl")._timeout_countdown == left
    assert not requests.final.exists()


@pytest.mark.parametrize("habit", ["none", "raises"])
def test_a_job_that_submitit_gives_up_declines_the_requeue(
    requests: requeue_request.Requests, tmp_path: Path, habit: str
) -> None:
    supervisor_requests(requests, "")
    requeued: list[int] = []
    with pytest.raises((RuntimeError, submitit.core.utils.UncompletedJobError)):
        handler(tmp_path, habit, requeued).checkpoint_and_try_requeue(NUMBER)
    assert (requeued, requests.final.exists()) == ([], True)


def test_the_requeue_goes_to_the_supervisor_while_it_has_the_job_save(
    requests: requeue_request.Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[int] = []
    monkeypatch.setattr(adapter, "_requeue_by_slurm", lambda environment, countdown: called.append(countdown))
    adapter._requeue(None, 3)
    assert (called, requests.asked.exists()) == ([], True)
    control.stop_file(requests.asked.parent, 2).unlink()
    adapter._requeue(None, 3)
    assert called == [3]


def test_all_of_an_executors_jobs_go_through_tsbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_make_submission_command", "_submitit_command_str"):
        monkeypatch.setattr(SlurmExecutor, name, getattr(SlurmExecutor, name))
    for name in ("srun", "tsbatch"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    adapter.use()
    executor = SlurmExecutor(folder=tmp_path / "logs" / "%j", python="python3")
    option = f"TIRESIAS_CHECKPOINT=signal:USR2:{tmp_path}/logs/*/*_submitted.pkl"
    assert executor._make_submission_command(Path("file.sh")) == ["env", option, "tsbatch", "file.sh"]
    assert executor._submitit_command_str == f"python3 -u -m {adapter.MODULE} {tmp_path}/logs/%j"


def test_without_tsbatch_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="tsbatch is not in PATH"):
        adapter.use()
