"""Reads Slurm's rules with scontrol, and the flags of QOS, which slurmctld shows nowhere, with sacctmgr."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from tiresias.slurm_plugin.backends import assoc_mgr, scontrol_records
from tiresias.slurm_plugin.backends.protocol import JobRefused, SlurmUnavailable
from tiresias.slurm_plugin.backends.rules import Qos, SlurmRules

SETTINGS_MAX_AGE_S = 300.0  # what changes with slurm.conf or in slurmdbd only
_ENFORCE = re.compile(r"^AccountingStorageEnforce\s*=\s*(\S+)", re.MULTILINE)
_LIMITS = ("limits", "qos", "safe")
Read = Callable[..., bytes]


class RulesReader:
    def __init__(self, read: Read) -> None:
        """`read`: the output of a command of Slurm."""
        self._read = read
        self._enforce: frozenset[str] = frozenset()
        self._flags: dict[str, Qos] = {}
        self._flags_unread: tuple[str, ...] = ()
        self._enforce_until = self._flags_until = 0.0

    def rules(self) -> SlurmRules:
        """Raises SlurmUnavailable. A site without slurmdbd is not asked for associations."""
        now, enforce = time.time(), self._enforced()
        rules = SlurmRules(
            time=now,
            enforce=enforce,
            partitions={one.name: one for one in scontrol_records.partitions(self._show("partition"))},
            reservations=tuple(scontrol_records.reservations(self._show("reservation"))),
            licenses={one.name: one for one in scontrol_records.licenses(self._show("licenses"))},
        )
        return self._with_limits(rules) if enforce.intersection(_LIMITS) else rules

    def _with_limits(self, rules: SlurmRules) -> SlurmRules:
        text = self._show("assoc_mgr", "flags=assoc,qos")
        associations = {(one.account, one.user, one.partition): one for one in assoc_mgr.associations(text)}
        found = {one.name: one for one in assoc_mgr.qos(text)}
        unread: tuple[str, ...] = () if associations else ("associations: slurmctld shows none to this user",)
        if _flags_matter(rules, found.values()):
            unread += self._read_flags()
            found = {name: _with_flags(one, self._flags.get(name)) for name, one in found.items()}
        return replace(rules, qos=found, associations=associations, unread=unread)

    def _show(self, *what: str) -> str:
        # --all: also partitions that are hidden
        return self._read("scontrol", "--all", "--oneliner", "show", *what).decode(errors="replace")

    def _enforced(self) -> frozenset[str]:
        if time.monotonic() >= self._enforce_until:
            found = _ENFORCE.search(self._read("scontrol", "show", "config").decode(errors="replace"))
            self._enforce = frozenset(found[1].lower().split(",")) - {"none"} if found else frozenset()
            self._enforce_until = time.monotonic() + SETTINGS_MAX_AGE_S
        return self._enforce

    def _read_flags(self) -> tuple[str, ...]:
        """What could not be read; the flags of the last time stay."""
        if time.monotonic() >= self._flags_until:
            self._flags_until = time.monotonic() + SETTINGS_MAX_AGE_S
            words = (
                "sacctmgr",
                "--noheader",
                "--parsable2",
                "show",
                "qos",
                "format=name,flags,usagefactor,limitfactor",
            )
            try:
                self._flags = {one.name: one for one in qos_flags(self._read(*words).decode(errors="replace"))}
            except (SlurmUnavailable, JobRefused) as error:
                self._flags_unread = (f"flags of QOS: {error}",)
            else:
                self._flags_unread = ()
        return self._flags_unread


def qos_flags(text: str) -> Iterable[Qos]:
    """name|flags|usage factor|limit factor -> a QOS with nothing else."""
    for line in text.splitlines():
        name, *rest = line.split("|")
        if len(rest) >= 3:
            flags = frozenset(rest[0].split(",")) - {""}
            yield Qos(name=name, flags=flags, usage_factor=_factor(rest[1], 1.0), limit_factor=_factor(rest[2], 0.0))


def _factor(text: str, otherwise: float) -> float:
    return float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) else otherwise


def _with_flags(one: Qos, told: Qos | None) -> Qos:
    if told is None:
        return one
    return replace(one, flags=told.flags, usage_factor=told.usage_factor, limit_factor=told.limit_factor)


def _flags_matter(rules: SlurmRules, qos: Iterable[Qos]) -> bool:
    """Flags change which QOS comes first, what the partition's limits are, how minutes count: not of a site with one plain QOS."""
    return any(one.qos for one in rules.partitions.values()) or sum(1 for _ in qos) > 1
