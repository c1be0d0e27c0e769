"""`scontrol --oneliner show partition | reservation | licenses`: one line a record, of words such as MaxTime=1-00:00:00.

Pure functions. What they cannot read they read as no limit: then Slurm's refusal shows it.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator

from tiresias.scheduler.host_lists import hosts
from tiresias.slurm_plugin.backends.slurm_rules import License, Partition, Reservation

_WORD = re.compile(r"(?:^| )([A-Z][A-Za-z]*)=(\S*)")
_TIME = re.compile(r"(?:(\d{1,9})-)?(\d{1,9}):(\d\d)(?::(\d\d))?|(\d{1,9})")
_NOTHING = frozenset({"", "(null)", "N/A", "NONE", "None"})
_COUNT = re.compile(r"\d{1,15}")
Words = dict[str, str]


def _records(text: str, first: str) -> Iterator[Words]:
    for line in text.splitlines():
        if line.startswith(f"{first}="):
            yield dict(reversed(_WORD.findall(line)))  # of a word that stands twice the first counts


def partitions(text: str) -> Iterator[Partition]:
    """Return the partitions in the output of `scontrol show partition`."""
    for words in _records(text, "PartitionName"):
        yield Partition(
            name=words["PartitionName"],
            state=words.get("State", "UP"),
            nodes=hosts(_text(words, "Nodes")),
            max_time=_seconds(words, "MaxTime"),
            default_time=_seconds(words, "DefaultTime"),
            min_nodes=int(_count(words, "MinNodes", 0)),
            max_nodes=_count(words, "MaxNodes"),
            allow_accounts=_names(words, "AllowAccounts"),
            deny_accounts=_names(words, "DenyAccounts") or frozenset(),
            allow_qos=_names(words, "AllowQos"),
            deny_qos=_names(words, "DenyQos") or frozenset(),
            qos=_text(words, "QoS"),
            priority_tier=int(_count(words, "PriorityTier", 1)),
            max_cpus_per_node=_count(words, "MaxCPUsPerNode"),
            oversubscribe=words.get("OverSubscribe", "NO"),
            exclusive=words.get("OverSubscribe") == "EXCLUSIVE" or words.get("Exclusive", "NO") not in ("NO", "USER"),
        )


def reservations(text: str) -> Iterator[Reservation]:
    """Return the reservations in the output of `scontrol show reservation`."""
    for words in _records(text, "ReservationName"):
        start, end = _moment(words, "StartTime"), _moment(words, "EndTime")
        yield Reservation(
            name=words["ReservationName"],
            start=-math.inf if start is None else start,
            end=math.inf if end is None else end,
            nodes=hosts(_text(words, "Nodes")),
            flags=_names(words, "Flags") or frozenset(),
            users=_tuple(words, "Users"),
            accounts=_tuple(words, "Accounts"),
            licenses=_text(words, "Licenses"),
            partition=_text(words, "PartitionName"),
            state=words.get("State", ""),
        )


def licenses(text: str) -> Iterator[License]:
    """Return the licences in the output of `scontrol show licenses`."""
    for words in _records(text, "LicenseName"):
        yield License(
            name=words["LicenseName"],
            total=_count(words, "Total"),
            used=_count(words, "Used", 0),
            free=_count(words, "Free"),
            reserved=_count(words, "Reserved", 0),
            remote=words.get("Remote") == "yes",
            deficit=_count(words, "LastDeficit", 0),
        )


def _text(words: Words, name: str) -> str:
    found = words.get(name, "")
    return "" if found in _NOTHING else found


def _tuple(words: Words, name: str) -> tuple[str, ...]:
    return tuple(one for one in _text(words, name).split(",") if one)


def _names(words: Words, name: str) -> frozenset[str] | None:
    """None where all are meant or none is named."""
    found = _text(words, name)
    return frozenset(found.split(",")) if found and found != "ALL" else None


def _count(words: Words, name: str, otherwise: float = math.inf) -> float:
    found = words.get(name, "")
    return float(found) if _COUNT.fullmatch(found) else otherwise


def _seconds(words: Words, name: str) -> float:
    """1-00:00:00, 10:00:00, 10:00 (minutes) or 10 (minutes); inf for UNLIMITED and NONE."""
    found = _TIME.fullmatch(words.get(name, ""))
    if found is None:
        return math.inf
    days, first, second, third, minutes = (int(part or 0) for part in found.groups())
    if minutes or found[5]:
        return 60.0 * minutes
    hours = (first, second, third) if found[4] is not None or found[1] else (0, first, second)
    return float(86400 * days + 3600 * hours[0] + 60 * hours[1] + hours[2])


def _moment(words: Words, name: str) -> float | None:
    try:
        return time.mktime(time.strptime(words.get(name, ""), "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None
