"""In tsrun: whether to record the job, and how. A problem never delays or ends the user's program: it is not recorded then.

Recorded are jobs of tsbatch on several GPUs of whose kind (name, script, GPUs) there is no profile yet, once a run.
TIRESIAS_PROFILE=0 in the job's environment forbids it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tiresias.errors import TiresiasError
from tiresias.protocol import control, environment
from tiresias.protocol.job_kind import Key, hash_of_script
from tiresias.protocol.job_log import log_line
from tiresias.protocol.profile_summary import Summary, from_object
from tiresias.wrappers import isolated

if TYPE_CHECKING:
    from tiresias.profiler.build import Libraries

LOCAL = "/tmp/tiresias-profile-{uid}-{job}"  # on every node; the recorder makes it
BYTES = 4 << 20  # of a process' recording: 130,000 messages
INFINIBAND = Path("/sys/class/infiniband")  # a folder a device
_PLAIN = re.compile(r"[\w/.+@:-]+")  # srun's --export cannot quote


class Trial(NamedTuple):
    """The trial run of a job.

    Attributes:
        key: The kind of job.
        control: The job's control folder, below the user's.
        local: Folder of the recordings on each node.
    """

    key: Key
    control: Path
    local: Path

    @property
    def profiles(self) -> Path:
        """The folder of the user's profiles."""
        return control.profiles_folder(self.control.parent.parent, os.getuid())

    def known(self) -> Summary | None:
        """Return the profile of this kind of job, None without one."""
        return from_object(self.key, control.read(self.profiles / self.key.file, os.getuid()))


def of_job(env: Mapping[str, str]) -> Trial | None:
    """The job's trial, made or not; None where it is no job to be recorded."""
    folder, script, gpus = env.get(environment.CONTROL, ""), env.get(environment.SCRIPT, ""), count_gpus(env)
    if not folder.startswith("/") or not hash_of_script(script) or gpus < 2:
        return None
    path = Path(folder)
    job = f"{path.name}-{env.get(environment.RESTART, '0')}"
    return Trial(Key(env.get("SLURM_JOB_NAME", ""), script, gpus), path, Path(LOCAL.format(uid=os.getuid(), job=job)))


def count_gpus(env: Mapping[str, str]) -> int:
    """Return the number of GPUs of the whole job by the environment of its batch script, 0 where unknown."""
    if env.get("SLURM_GPUS"):  # such as 4, or a100:2,v100:2
        return sum(_number(part.rpartition(":")[2]) for part in env["SLURM_GPUS"].split(","))
    return _number(env.get("SLURM_GPUS_ON_NODE", "")) * _number(env.get("SLURM_JOB_NUM_NODES", "1"))


def begin(env: Mapping[str, str]) -> dict[str, str]:
    """Start the watcher; return the variables that make the programs record, {} where they must not."""
    trial = of_job(env)
    if trial is None or env.get(environment.PROFILE) == "0" or _is_needless(trial):
        return {}
    try:
        found = _libraries()
        variables = _variables(found, trial, env)
        _require_plain(variables)
        if not _is_first(trial):
            return {}
        _start_watcher(trial, env)
        _report_limits(found)
    except (TiresiasError, OSError) as error:
        log_line(f"this run is not profiled: {error}")
        return {}
    return variables


def _is_needless(trial: Trial) -> bool:
    known = trial.known()
    return known is not None and known.is_final


def _require_plain(variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        if not _PLAIN.fullmatch(value):
            raise TiresiasError(f"srun --export cannot pass {name}={value}")


def _report_limits(found: Libraries) -> None:
    if found.verbs is None and INFINIBAND.is_dir() and any(INFINIBAND.iterdir()):
        log_line("RDMA is not recorded: the profiler's libraries were built without rdma-core's headers")


def _is_first(trial: Trial) -> bool:
    """The first tsrun of this run of the job: the supervisor removes the mark when it starts the script."""
    with suppress(FileExistsError):
        os.close(os.open(trial.control / control.TRIAL, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        return True
    return False


def _libraries() -> Libraries:
    from tiresias.profiler.build import libraries  # only where it is to be

    return libraries()


def _variables(found: Libraries, trial: Trial, env: Mapping[str, str]) -> dict[str, str]:
    preloaded = [str(found.net), *filter(None, [env.get("LD_PRELOAD", "")])]
    variables = {
        "LD_PRELOAD": ":".join(preloaded).replace(" ", ":"),
        environment.PROFILE_DIR: str(trial.local),
        environment.PROFILE_BYTES: str(BYTES),
    }
    if found.nccl.exists() and "NCCL_PROFILER_PLUGIN" not in env:
        variables["NCCL_PROFILER_PLUGIN"] = str(found.nccl)
    return variables


def _start_watcher(trial: Trial, env: Mapping[str, str]) -> None:
    """A child that stays one when this process becomes srun, so that it sees the end of it."""
    subprocess.Popen(
        isolated.command("tiresias.wrappers.trial.watch", str(os.getpid())),
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def _number(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,6}", text, re.ASCII) else 0
