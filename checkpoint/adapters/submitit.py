"""Jobs of submitit that may be preempted: submitit's own checkpoint() saves, the controller requeues.

    import tiresias.checkpoint.adapters.submitit
    tiresias.checkpoint.adapters.submitit.use()
    executor = submitit.AutoExecutor(folder="logs")     # as before

`use()` has submitit submit by tsbatch. In the job, this module stands in the place of submitit's own start program: it requests the
requeue from the job's supervisor, and counts a time-out only where the time limit was near (`max_num_timeout`).
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import Any

from submitit.core import job_environment, submission
from submitit.slurm.slurm import SlurmExecutor, SlurmJobEnvironment

from tiresias.errors import UsageError
from tiresias.protocol import control, requeue_request
from tiresias.protocol.environment import CONTROL
from tiresias.protocol.job_log import log_line

MODULE = "tiresias.checkpoint.adapters.submitit"
_requeue_by_slurm = SlurmJobEnvironment._requeue


def use() -> None:
    """Submit every further job of submitit's Slurm executor by tsbatch, those of AutoExecutor and arrays included.

    Raises UsageError where tsbatch is not in PATH.
    """
    if shutil.which("tsbatch") is None:
        raise UsageError("tsbatch is not in PATH: load your site's module of Tiresias")
    SlurmExecutor._make_submission_command = _submission_command
    SlurmExecutor._submitit_command_str = property(_job_command)


def _submission_command(executor: Any, submission_file: Path) -> list[str]:
    """In the log folder only the pickled state is evidence of a save; %j stands for each job's id there."""
    pickles = Path(str(executor.folder).replace("%j", "*")) / "*_submitted.pkl"
    option = f"signal:{SlurmJobEnvironment.USR_SIG}:{pickles}"
    return ["env", f"TIRESIAS_CHECKPOINT={option}", "tsbatch", str(submission_file)]


def _job_command(executor: Any) -> str:
    return f"{executor.python} -u -m {MODULE} {shlex.quote(str(executor.folder))}"


class Handler(job_environment.SignalHandler):
    """A replacement of submitit's handler during a save that the supervisor requested; else it behaves as submitit's."""

    def has_timed_out(self) -> bool:
        """Whether the signal is due to the time limit."""
        requests = requeue_request.from_env()
        if requests is None or not requests.is_saving:
            return bool(super().has_timed_out())
        return _is_for_the_time_limit()

    def checkpoint_and_try_requeue(self, signum: int, frame: Any = None) -> None:
        """Where it does not requeue, submitit has written the job's result, an error: a further run would be lost."""
        requests = requeue_request.from_env()
        try:
            super().checkpoint_and_try_requeue(signum, frame)
        except Exception:
            if requests is not None and requests.is_saving:
                requests.decline()
            raise


def _requeue(environment: Any, countdown: int) -> None:
    requests = requeue_request.from_env()
    if requests is None or not requests.is_saving:
        _requeue_by_slurm(environment, countdown)
        return
    log_line(f"submitit has saved ({countdown} remaining timeouts); the requeue is left to the controller")
    requests.ask()


def _is_for_the_time_limit() -> bool:
    folder = Path(os.environ[CONTROL])
    return control.read(folder / control.SUPERVISOR, os.getuid()).get("why") == "limit"


def main() -> None:
    """`python -m tiresias.checkpoint.adapters.submitit FOLDER`, in the job."""
    job_environment.SignalHandler = Handler
    SlurmJobEnvironment._requeue = _requeue
    submission.submitit_main()


if __name__ == "__main__":
    main()
