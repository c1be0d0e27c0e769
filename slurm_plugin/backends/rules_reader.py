"""Reads Slurm's rules with scontrol, and with sacctmgr what slurmctld does not show of QOS."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace

from tiresias.slurm_plugin.backends import assoc_mgr, qos_table, scontrol_records
from tiresias.slurm_plugin.backends.interface import JobRefused, SlurmUnavailable
from tiresias.slurm_plugin.backends.slurm_rules import Qos, SlurmRules

SETTINGS_MAX_AGE_S = 300.0  # what changes with slurm.conf only
QOS_MAX_AGE_S = 9.0  # what slurmdbd has of QOS; below the interval of reads while a rule blocks jobs (known_rules.py)
_ENFORCE = re.compile(r"^AccountingStorageEnforce\s*=\s*(\S+)", re.MULTILINE)
_LIMITS = ("limits", "qos", "safe")
Read = Callable[..., bytes]


class RulesReader:
    """Reads Slurm's rules; what changes rarely is read less often."""

    def __init__(self, read: Read) -> None:
        """`read`: the output of a command of Slurm."""
        self._read = read
        self._enforce: frozenset[str] = frozenset()
        self._table: dict[str, Qos] = {}
        self._table_unread: tuple[str, ...] = ()
        self._enforce_until = self._table_until = 0.0

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
        if enforce.intersection(_LIMITS):
            return self._with_limits(rules)
        return self._with_shares(rules) if enforce else rules

    def _with_shares(self, rules: SlurmRules) -> SlurmRules:
        """With the fair-share tree of a site that enforces associations without their limits."""
        return replace(rules, fair_shares=tuple(assoc_mgr.fair_shares(self._show("assoc_mgr", "flags=assoc"))))

    def _with_limits(self, rules: SlurmRules) -> SlurmRules:
        text = self._show("assoc_mgr", "flags=assoc,qos")
        associations = {(one.account, one.user, one.partition): one for one in assoc_mgr.associations(text)}
        found = {one.name: one for one in assoc_mgr.qos(text)}
        unread: tuple[str, ...] = () if associations else ("associations: slurmctld shows none to this user",)
        if found:
            unread += self._read_table()
            found = {name: qos_table.completed(one, self._table.get(name)) for name, one in found.items()}
        shares = tuple(assoc_mgr.fair_shares(text))
        return replace(rules, qos=found, associations=associations, fair_shares=shares, unread=unread)

    def _show(self, *what: str) -> str:
        # --all: also partitions that are hidden
        return self._read("scontrol", "--all", "--oneliner", "show", *what).decode(errors="replace")

    def _enforced(self) -> frozenset[str]:
        if time.monotonic() >= self._enforce_until:
            found = _ENFORCE.search(self._read("scontrol", "show", "config").decode(errors="replace"))
            self._enforce = frozenset(found[1].lower().split(",")) - {"none"} if found else frozenset()
            self._enforce_until = time.monotonic() + SETTINGS_MAX_AGE_S
        return self._enforce

    def _read_table(self) -> tuple[str, ...]:
        """What could not be read; the table of the last time stays."""
        if time.monotonic() >= self._table_until:
            self._table_until = time.monotonic() + QOS_MAX_AGE_S
            try:
                output = self._read(*qos_table.COMMAND).decode(errors="replace")
            except (SlurmUnavailable, JobRefused) as error:
                self._table_unread = (f"flags of QOS, and their limits per user and account: {error}",)
            else:
                self._table, self._table_unread = {one.name: one for one in qos_table.qos(output)}, ()
        return self._table_unread
