"""Checks of Slurm's limits: whether they can be read, and whether all of them are known before a start."""

from __future__ import annotations

from collections.abc import Iterator

from tiresias.slurm_plugin.admission.demand import is_counted
from tiresias.slurm_plugin.backends.interface import Backend, SlurmUnavailable
from tiresias.slurm_plugin.backends.slurm_rules import Limits, Qos, SlurmRules, Tres
from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine

_MAX_SHOWN = 5  # limits in a finding


def read(backend: Backend) -> Iterator[Finding]:
    """Read the limits and check them."""
    try:
        rules = backend.rules()
    except SlurmUnavailable as error:
        rules = SlurmRules(enforce=frozenset({"limits"}), unread=(str(error),))
    yield from findings(rules)


def findings(rules: SlurmRules) -> Iterator[Finding]:
    """Yield the findings on these rules."""
    if not rules.enforce:
        yield fine("limits", "Slurm enforces none (AccountingStorageEnforce)")
        return
    for words in rules.unread:
        yield Finding(
            Level.RISK,
            "limits",
            f"not readable: {words}",
            "AdminLevel=Operator for this user (PrivateData hides associations from others); check slurmdbd",
        )
    if odd := sorted(set(_unknown(rules))):
        shown = ", ".join(odd[:_MAX_SHOWN]) + (f" and {len(odd) - _MAX_SHOWN} more" if len(odd) > _MAX_SHOWN else "")
        yield Finding(
            Level.ADVICE,
            "limits",
            f"found only by refused starts: {shown}",
            "nothing: a refused start delays its group of jobs for some time (docs/reference/admission.md)",
        )
    elif not rules.unread:
        yield fine("limits", "all of QOS and associations are known before a start")


def _unknown(rules: SlurmRules) -> Iterator[str]:
    """Yield limits of TRES that the model does not support."""
    for name, qos in rules.qos.items():
        yield from (f"QOS {name}: {tres}" for tres in _tres((*_shared(qos), *_own(qos))))
    for one in rules.associations.values():
        association = f"account {one.account}" + (f", user {one.user}" if one.user else "")
        yield from (f"{association}: {tres}" for tres in _tres(_shared(one)))


def _tres(limits: tuple[Tres, ...]) -> Iterator[str]:
    return (tres for limit in limits for tres in limit if not is_counted(tres))


def _shared(one: Limits) -> tuple[Tres, ...]:
    return (
        one.grp_tres,
        one.grp_tres_mins,
        one.grp_tres_run_mins,
        one.max_tres,
        one.max_tres_node,
        one.max_tres_mins,
    )


def _own(one: Qos) -> tuple[Tres, ...]:
    users = (one.max_tres_user, one.max_tres_run_mins_user)
    return (*users, one.max_tres_account, one.max_tres_run_mins_account, one.min_tres)
