"""`scontrol --oneliner show assoc_mgr flags=assoc,qos`: the limits of associations and QOS, and what counts against them.

A site may have ten thousand associations of more than a kilobyte each, most of them without a limit. So a line is searched for a
number where a limit stands first, and only those that have one are read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tiresias.slurm_plugin.backends.slurm_rules import NO_TRES, Association, FairShare, LimitUsage, Qos, Tres

CEILING = 2.0**53  # a greater limit is none: floats count exactly up to here
_ASSOCIATION = re.compile(r"ClusterName=\S* Account=(\S*) UserName=(\S*?)(?:\(\d+\))? Partition=(\S*) ")
_OWNER = re.compile(r"ClusterName=\S* Account=(\S*) UserName=(?:\S*\((\d{1,10})\))? Partition=\S* ")
_SHARES = re.compile(r" SharesRaw/Norm/Level/Factor=(\d{1,10})/")
_USE_PARENT = 0x7FFFFFFF  # Fairshare=parent
_PARENT = re.compile(r" ParentAccount=(\S*?)(?:\(\d+\))? (?:Lineage|Lft)=")
_QOS = re.compile(r"QOS=(.*?)\(\d+\) UsageRaw=")
_FIRST_LIMIT, _LAST_LIMIT = " GrpJobs=", " MinPrioThresh="
_NUMBER = re.compile(r"=\d")
_FIELD = re.compile(r" ([A-Z]\w+)=(\d\S*|\S*=\d\S*)")  # with a limit
_COUNT = re.compile(r"(\d+)(?:\((\d+(?:\.\d+)?)\))?")
_TRES = re.compile(r"([^=,]+)=(\d+)(?:\((\d+)\))?")
Fields = dict[str, str]


def associations(text: str) -> Iterator[Association]:
    """All accounts, and the users that have limits."""
    for line in _lines(text, "ClusterName="):
        found = _ASSOCIATION.match(line)
        if found is None:
            continue
        limits = _limits(line)
        if limits or not found[2]:
            yield _association(found, _PARENT.search(line), dict(_FIELD.findall(limits)))


def fair_shares(text: str) -> Iterator[FairShare]:
    """Return the shares of all associations. A user with Fairshare=parent counts as one with 1."""
    for line in _lines(text, "ClusterName="):
        owner, shares = _OWNER.match(line), _SHARES.search(line)
        if owner is None or shares is None:
            continue
        raw, above = int(shares[1]), _PARENT.search(line)
        parent = above[1] if above and owner[2] is None else ""
        yield FairShare(
            owner[1], parent, int(owner[2]) if owner[2] else None, 1.0 if raw >= _USE_PARENT else float(raw)
        )


def _association(found: re.Match[str], parent: re.Match[str] | None, fields: Fields) -> Association:
    account, user, partition = found.groups()
    above = parent[1] if parent and not user else ""
    return Association(
        account=account,
        user=user,
        partition=partition,
        parent=above,
        max_jobs=_count(fields, "MaxJobs"),
        **_common(fields),
    )


def qos(text: str) -> Iterator[Qos]:
    """Return the QOS in the output of `scontrol show assoc_mgr`."""
    for line in _lines(text, "QOS="):
        if found := _QOS.match(line):
            # a user's or account's part of a QOS shows what applies to each: the first of them will do
            shared, _, others = line[found.end() :].partition(" Account Limits=")
            fields = dict(reversed(_FIELD.findall(others.replace("{", " ").replace("}", " "))))
            yield _qos(found[1], fields | dict(_FIELD.findall(shared)))


def _qos(name: str, fields: Fields) -> Qos:
    return Qos(
        name=name,
        max_jobs_user=_count(fields, "MaxJobsPU"),
        max_jobs_account=_count(fields, "MaxJobsPA"),
        max_tres_user=_tres(fields, "MaxTRESPU"),
        max_tres_account=_tres(fields, "MaxTRESPA"),
        max_tres_run_mins_user=_tres(fields, "MaxTRESRunMinsPU"),
        max_tres_run_mins_account=_tres(fields, "MaxTRESRunMinsPA"),
        min_tres=_tres(fields, "MinTRESPJ"),
        **_common(fields),
    )


def _lines(text: str, start: str) -> Iterable[str]:
    return (line for line in text.splitlines() if line.startswith(start))


def _limits(line: str) -> str:
    """The part of an association's line with its limits; "" where it has none. Its comment, which users write, follows it."""
    begin = line.find(_FIRST_LIMIT)
    end = line.find(_LAST_LIMIT, begin)
    part = line[begin:end] if 0 <= begin < end else ""
    return part if _NUMBER.search(part) else ""


def _common(fields: Fields) -> dict[str, Any]:
    names = ("GrpTRES", "GrpTRESMins", "GrpTRESRunMins")
    grp_tres, grp_mins, grp_run_mins = (_tres(fields, name) for name in names)
    used, used_mins, used_run_mins = (_tres(fields, name, 3) for name in names)
    return {
        "grp_jobs": _count(fields, "GrpJobs"),
        "grp_wall": _count(fields, "GrpWall"),
        "grp_tres": grp_tres,
        "grp_tres_mins": grp_mins,
        "grp_tres_run_mins": grp_run_mins,
        "max_wall": _count(fields, "MaxWallPJ"),
        "max_tres": _tres(fields, "MaxTRESPJ"),
        "max_tres_node": _tres(fields, "MaxTRESPN"),
        "max_tres_mins": _tres(fields, "MaxTRESMinsPJ"),
        "usage": LimitUsage(_used(fields, "GrpJobs"), _used(fields, "GrpWall"), used, used_mins, used_run_mins),
    }


def _count(fields: Fields, name: str) -> float:
    found = _COUNT.match(fields.get(name, ""))
    return _clamped(found[1]) if found else math.inf


def _used(fields: Fields, name: str) -> float:
    found = _COUNT.match(fields.get(name, ""))
    return min(float(found[2] or 0), CEILING) if found else 0.0


def _clamped(digits: str) -> float:
    number = float(digits)
    return number if number < CEILING else math.inf


def _tres(fields: Fields, name: str, group: int = 2) -> Tres:
    """The limits (group 2) or the usage (group 3) of the TRES that have a limit."""
    text = fields.get(name, "")
    if not text:
        return NO_TRES
    found = [one for one in _TRES.finditer(text) if _clamped(one[2]) < math.inf]
    return {one[1]: min(float(one[group] or 0), CEILING) for one in found} or NO_TRES
