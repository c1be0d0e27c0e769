"""The site's slurm.conf as far as the controller depends on it, read once at start-up: names, harmful settings, rights."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tiresias.slurm_plugin.backends import processes
from tiresias.slurm_plugin.backends.interface import SlurmUnavailable
from tiresias.slurm_plugin.cluster import slurm_conf_checks
from tiresias.slurm_plugin.cluster.rights import Rights, masters, read_rights


class RateLimit(NamedTuple):
    """SlurmctldParameters=rl_enable: calls at once, and calls a second after that."""

    size: int
    rate: float


@dataclass(frozen=True, slots=True)
class Site:
    """The site's Slurm.

    Attributes:
        cluster: ClusterName.
        alarms: Settings that would harm, one line each.
        rate_limit: Slurm's limit of the controller's calls; None: no limit.
        private: The words of PrivateData.
        nodes: Of each partition, as Slurm lists them.
    """

    cluster: str
    default_partition: str
    partitions: frozenset[str]
    alarms: tuple[str, ...]
    rate_limit: RateLimit | None = None
    private: frozenset[str] = frozenset()
    rights: Rights = field(default_factory=Rights)
    nodes: Mapping[str, str] = field(default_factory=dict)


def read_site(deadline: float = 10.0) -> Site:
    """Read the site. Raises SlurmUnavailable when scontrol gets no answer within `deadline` seconds."""
    config = read_settings(deadline)
    partitions = _scontrol("partition", deadline)
    names = re.findall(r"^PartitionName=(\S+)", partitions, re.MULTILINE)
    default = re.search(r"^PartitionName=(\S+).*?\bDefault=YES", partitions, re.MULTILINE)
    rights = read_rights(config, deadline)
    return Site(
        config.get("ClusterName", ""),
        default.group(1) if default else "",
        frozenset(names),
        (*slurm_conf_checks.risks(config), *filter(None, [rights.unknown])),
        rate_limit(config, os.getuid()),
        frozenset(config.get("PrivateData", "").lower().split(",")),
        rights,
        dict(re.findall(r"^PartitionName=(\S+).*? Nodes=(\S+)", partitions, re.MULTILINE)),
    )


def rate_limit(config: Mapping[str, str], uid: int) -> RateLimit | None:
    """Return Slurm's limit for this user; None without one: root and SlurmUser have none. `config`: as scontrol shows it."""
    words = dict(word.partition("=")[::2] for word in config.get("SlurmctldParameters", "").split(","))
    if "rl_enable" not in words or uid in masters(config):
        return None
    size, refill, period = (
        int(words.get(f"rl_{name}") or default)
        for name, default in (("bucket_size", 30), ("refill_rate", 2), ("refill_period", 1))
    )
    return RateLimit(size, refill / period)


def read_settings(deadline: float = 10.0) -> dict[str, str]:
    """Return slurm.conf as slurmctld has it. Raises SlurmUnavailable."""
    return settings_of(_scontrol("config", deadline))


def settings_of(shown: str) -> dict[str, str]:
    """Return the settings in the output of `scontrol show config`.

    New versions number the programs of a hook, even a single one: EpilogSlurmctld[0] = /etc/tiresias/poke.sh
    """
    return dict(re.findall(r"^(\w+)(?:\[\d+\])?\s+= (.*)$", shown, re.MULTILINE))


def _scontrol(what: str, deadline: float) -> str:
    answer = processes.run(["scontrol", "show", what, "-o"], deadline)
    if answer.returncode:
        raise SlurmUnavailable(
            f"scontrol show {what}: {answer.stderr.decode(errors='replace').strip()}; is slurmctld up?"
        )
    return answer.stdout.decode(errors="replace")
