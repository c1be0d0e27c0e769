"""What the site's slurm.conf says that we depend on, read once at start-up: names, and settings that would hurt."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tiresias.slurm_plugin.backends import processes
from tiresias.slurm_plugin.backends.protocol import SlurmUnavailable
from tiresias.slurm_plugin.doctor import settings


@dataclass(frozen=True, slots=True)
class Site:
    cluster: str
    default_partition: str
    partitions: frozenset[str]
    alarms: tuple[str, ...]


def read_site(deadline: float = 10.0) -> Site:
    """Raises SlurmUnavailable when scontrol gets no answer within `deadline` seconds."""
    config = read_settings(deadline)
    partitions = _scontrol("partition", deadline)
    names = re.findall(r"^PartitionName=(\S+)", partitions, re.MULTILINE)
    default = re.search(r"^PartitionName=(\S+).*?\bDefault=YES", partitions, re.MULTILINE)
    return Site(
        config.get("ClusterName", ""),
        default.group(1) if default else "",
        frozenset(names),
        tuple(settings.risks(config)),
    )


def read_settings(deadline: float = 10.0) -> dict[str, str]:
    """slurm.conf as slurmctld has it. Raises SlurmUnavailable."""
    return dict(re.findall(r"^(\w+)\s+= (.*)$", _scontrol("config", deadline), re.MULTILINE))


def _scontrol(what: str, deadline: float) -> str:
    answer = processes.run(["scontrol", "show", what, "-o"], deadline)
    if answer.returncode:
        raise SlurmUnavailable(
            f"scontrol show {what}: {answer.stderr.decode(errors='replace').strip()}; is slurmctld up?"
        )
    return answer.stdout.decode(errors="replace")
