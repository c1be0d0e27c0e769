"""Who may do what in Slurm: root and SlurmUser everything, and so, where there is slurmdbd, users with an AdminLevel."""

from __future__ import annotations

import contextlib
import pwd
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tiresias.slurm_plugin.backends import processes
from tiresias.slurm_plugin.backends.interface import SlurmUnavailable

ADMIN_LEVELS = ("Operator", "Administrator")
_USERS = ("sacctmgr", "--noheader", "--parsable2", "show", "user", "format=user,adminlevel")


@dataclass(frozen=True, slots=True)
class Rights:
    """uids of root and SlurmUser, and of all users with an AdminLevel. known: the names of accounting's users. unknown: why these
    could not be learned, or ""."""

    masters: frozenset[int] = frozenset({0})
    operators: frozenset[int] = frozenset()
    administrators: frozenset[int] = frozenset()  # of the operators, those with AdminLevel=Administrator
    known: frozenset[str] = frozenset()
    unknown: str = ""

    @property
    def overseers(self) -> frozenset[int]:
        """Who may act on others' jobs, and see them."""
        return self.masters | self.operators

    def may_administer(self, uid: int) -> bool:
        """Whether Slurm lets this user change what only an Administrator may."""
        return uid in self.masters | self.administrators

    def why_powerless(self, uid: int) -> str:
        """Why Slurm would refuse what the controller does as this user; "" where it would not, or nobody can say."""
        if uid in self.overseers or self.unknown:
            return ""
        name = user_name(uid)
        return (
            f"Slurm does not let user {name} act on others' jobs: `{self.remedy(name)}`, or run as SlurmUser where there is no "
            'slurmdbd, or only watch (mode = "shadow")'
        )

    def remedy(self, name: str) -> str:
        """`add` leaves the AdminLevel of a user as it is whom accounting knows already."""
        if name in self.known:
            return f"sacctmgr modify user {name} set adminlevel=operator"
        return f"sacctmgr add user {name} account=root adminlevel=operator"


def masters(config: Mapping[str, str]) -> frozenset[int]:
    """uids of root and SlurmUser."""
    owner = re.search(r"\((\d+)\)$", config.get("SlurmUser", ""))
    return frozenset({0, int(owner[1])} if owner else {0})


def read_rights(config: Mapping[str, str], deadline: float = 10.0) -> Rights:
    """`config`: of slurm.conf, as scontrol shows it. Never raises: slurmdbd may be down for a day."""
    always = masters(config)
    if not config.get("AccountingStorageType", "").endswith("slurmdbd"):
        return Rights(always)
    try:
        answer = processes.run(_USERS, deadline)
    except SlurmUnavailable as error:
        return Rights(always, unknown=f"who is an Operator is not known: {error}")
    if answer.returncode:
        problem = answer.stderr.decode(errors="replace").strip().partition("\n")[0]
        return Rights(always, unknown=f"who is an Operator is not known: sacctmgr: {problem}")
    levels = dict(line.split("|")[:2] for line in answer.stdout.decode(errors="replace").splitlines() if "|" in line)
    operators, administrators = (frozenset(_with_level(levels, one)) for one in (ADMIN_LEVELS, ADMIN_LEVELS[1:]))
    return Rights(always, operators, administrators, frozenset(levels))


def _with_level(levels: Mapping[str, str], wanted: Sequence[str]) -> Iterator[int]:
    for name, level in levels.items():
        if level in wanted:
            with contextlib.suppress(KeyError):  # a user of accounting who has no account on this host
                yield pwd.getpwnam(name).pw_uid


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
