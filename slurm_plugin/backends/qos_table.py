"""`sacctmgr --noheader --parsable2 show qos`: what slurmctld does not show of a QOS.

`scontrol show assoc_mgr` has no flags, and the limits per user and per account only of users and accounts that have used the QOS.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace

from tiresias.slurm_plugin.backends.assoc_mgr import CEILING
from tiresias.slurm_plugin.backends.slurm_rules import NO_TRES, Qos, Tres

COLUMNS = (
    "name", "flags", "usagefactor", "limitfactor", "maxjobspu", "maxjobspa", "maxtrespu", "maxtrespa", "maxtresrunminspu",
    "maxtresrunminspa",
)  # fmt: skip
COMMAND = ("sacctmgr", "--noheader", "--parsable2", "show", "qos", f"format={','.join(COLUMNS)}")
_FACTOR = re.compile(r"\d{1,9}(\.\d{1,9})?")
_TRES = re.compile(r"([^=,]+)=(\d{1,18}(?:\.\d{1,9})?)([KMGTP]?)")
_MB = {"": 1.0, "K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30}


def qos(text: str) -> Iterator[Qos]:
    """One QOS a line, with nothing but what the table has."""
    for line in text.splitlines():
        name, *rest = line.split("|")
        if len(rest) < len(COLUMNS) - 1:
            continue
        flags, usage, limit, jobs_user, jobs_account, *tres = rest
        of_user, of_account, minutes_user, minutes_account = map(_tres, tres[:4])
        yield Qos(
            name=name,
            flags=frozenset(flags.split(",")) - {""},
            usage_factor=_factor(usage, 1.0),
            limit_factor=_factor(limit, 0.0),
            max_jobs_user=_count(jobs_user),
            max_jobs_account=_count(jobs_account),
            max_tres_user=of_user,
            max_tres_account=of_account,
            max_tres_run_mins_user=minutes_user,
            max_tres_run_mins_account=minutes_account,
        )


def completed(one: Qos, tabled: Qos | None) -> Qos:
    """Return slurmctld's QOS with the table's additional values; where both have a limit, slurmctld's is the newer one."""
    if tabled is None:
        return one
    return replace(
        one,
        flags=tabled.flags,
        usage_factor=tabled.usage_factor,
        limit_factor=tabled.limit_factor,
        max_jobs_user=one.max_jobs_user if one.max_jobs_user < math.inf else tabled.max_jobs_user,
        max_jobs_account=one.max_jobs_account if one.max_jobs_account < math.inf else tabled.max_jobs_account,
        max_tres_user=one.max_tres_user or tabled.max_tres_user,
        max_tres_account=one.max_tres_account or tabled.max_tres_account,
        max_tres_run_mins_user=one.max_tres_run_mins_user or tabled.max_tres_run_mins_user,
        max_tres_run_mins_account=one.max_tres_run_mins_account or tabled.max_tres_run_mins_account,
    )


def _factor(text: str, otherwise: float) -> float:
    return float(text) if _FACTOR.fullmatch(text) else otherwise


def _count(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and float(text) < CEILING else math.inf


def _tres(text: str) -> Tres:
    """ "cpu=8,gres/gpu=1,mem=4G": memory in MB."""
    found = {name: float(number) * _MB[unit] for name, number, unit in _TRES.findall(text)}
    return {name: value for name, value in found.items() if value < CEILING} or NO_TRES
