"""Rights in Slurm: root and SlurmUser may do everything, and with slurmdbd also users with an AdminLevel."""

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
    """The users with rights over other users' jobs.

    Attributes:
        masters: uids of root and SlurmUser.
        operators: uids of users with an AdminLevel.
        administrators: Of these, the ones with AdminLevel=Administrator.
        known: The names of accounting's users.
        unknown: Why accounting could not be read, or "".
    """

    masters: frozenset[int] = frozenset({0})
    operators: frozenset[int] = frozenset()
    administrators: frozenset[int] = frozenset()
    known: frozenset[str] = frozenset()
    unknown: str = ""

    @property
    def overseers(self) -> frozenset[int]:
        """uids of the users that may change and see other users' jobs."""
        return self.masters | self.operators

    def may_administer(self, uid: int) -> bool:
        """Whether Slurm lets this user change what only an Administrator may."""
        return uid in self.masters | self.administrators

    def why_powerless(self, uid: int) -> str:
        """Return why Slurm would refuse the controller's operations by this user; "" where it would not, or this is unknown."""
        if uid in self.overseers or self.unknown:
            return ""
        name = user_name(uid)
        return (
            f"Slurm does not let user {name} act on others' jobs: `{self.remedy(name)}`, or run as SlurmUser where there is no "
            'slurmdbd, or only watch (mode = "shadow")'
        )

    def remedy(self, name: str) -> str:
        """Return the command that gives the user the right; `add` does not change the AdminLevel of a user that accounting has."""
        if name in self.known:
            return f"sacctmgr modify user {name} set adminlevel=operator"
        return f"sacctmgr add user {name} account=root adminlevel=operator"


def masters(config: Mapping[str, str]) -> frozenset[int]:
    """Return the uids of root and SlurmUser."""
    owner = re.search(r"\((\d+)\)$", config.get("SlurmUser", ""))
    return frozenset({0, int(owner[1])} if owner else {0})


def read_rights(config: Mapping[str, str], deadline: float = 10.0) -> Rights:
    """Return the rights. Never raises: slurmdbd may be down for a day. `config`: of slurm.conf, as scontrol shows it."""
    always = masters(config)
    if not config.get("AccountingStorageType", "").endswith("slurmdbd"):
        return Rights(always)
    try:
        answer = processes.run(_USERS, deadline)
    except SlurmUnavailable as error:
        return Rights(always, unknown=f"the Operators are not known: {error}")
    if answer.returncode:
        problem = answer.stderr.decode(errors="replace").strip().partition("\n")[0]
        return Rights(always, unknown=f"the Operators are not known: sacctmgr: {problem}")
    levels = dict(line.split("|")[:2] for line in answer.stdout.decode(errors="replace").splitlines() if "|" in line)
    operators, administrators = (frozenset(_with_level(levels, one)) for one in (ADMIN_LEVELS, ADMIN_LEVELS[1:]))
    return Rights(always, operators, administrators, frozenset(levels))


def _with_level(levels: Mapping[str, str], names: Sequence[str]) -> Iterator[int]:
    for name, level in levels.items():
        if level in names:
            with contextlib.suppress(KeyError):  # a user of accounting without an account on this host
                yield pwd.getpwnam(name).pw_uid


def user_name(uid: int) -> str:
    """Return the name of a user, its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
