"""What the site's slurm.conf says that we depend on, read once at start-up: names, and settings that would hurt."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass

from tiresias.slurm_plugin.backends.protocol import SlurmUnavailable


@dataclass(frozen=True, slots=True)
class Site:
    cluster: str
    default_partition: str
    partitions: frozenset[str]
    alarms: tuple[str, ...]


def read_site(deadline: float = 10.0) -> Site:
    """Raises SlurmUnavailable when scontrol gets no answer within `deadline` seconds."""
    config = dict(re.findall(r"^(\w+)\s+= (.*)$", _scontrol("config", deadline), re.MULTILINE))
    partitions = _scontrol("partition", deadline)
    names = re.findall(r"^PartitionName=(\S+)", partitions, re.MULTILINE)
    default = re.search(r"^PartitionName=(\S+).*?\bDefault=YES", partitions, re.MULTILINE)
    return Site(
        config.get("ClusterName", ""), default.group(1) if default else "", frozenset(names), tuple(_alarms(config))
    )


def _alarms(config: dict[str, str]) -> list[str]:
    alarms = []
    if "disable_job_shrink" not in config.get("SchedulerParameters", ""):
        alarms.append(
            "SchedulerParameters lacks disable_job_shrink: a pin that comes too late would shrink the job; add it to slurm.conf"
        )
    if config.get("JobRequeue", "1") == "0":
        alarms.append("JobRequeue=0: only jobs submitted with --requeue can be preempted")
    return alarms


def _scontrol(what: str, deadline: float) -> str:
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "SLURM_CONF", "HOME")}
    try:
        answer = subprocess.run(
            ["scontrol", "show", what, "-o"], capture_output=True, text=True, errors="replace", timeout=deadline,
            env=environment | {"LC_ALL": "C"}, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise SlurmUnavailable("scontrol is not in PATH: run the controller on a host with Slurm's commands") from None
    except subprocess.TimeoutExpired:
        raise SlurmUnavailable(f"scontrol show {what}: no answer within {deadline:g} s; is slurmctld up?") from None
    if answer.returncode:
        raise SlurmUnavailable(f"scontrol show {what}: {answer.stderr.strip()}; is slurmctld up?")
    return answer.stdout
