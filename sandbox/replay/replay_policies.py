"""The policies of a replay by name: those that the controller runs, and unmodified Slurm. Pure.

NAME[+PLACEMENT][+reports]: a policy of the controller, with all jobs in one placement, and with jobs that report their progress.
NAME[+reports]+elastic: the jobs are elastic, and their sizes change (--sizing).
assist: Slurm orders and starts the jobs, and the controller preempts some for the one that Slurm ranks first (mode assist).
NAME+RULE: tenants share the cluster by this rule of the controller, such as las+virtual_clusters.
slurm-fifo and slurm-backfill: unmodified Slurm. slurm-qos-requeue and slurm-qos-suspend: the same with --shares, and jobs of the
QOS urgent preempt others (shared_site.py). slurm-fairshare, slurm-grptres and slurm-private: the same with tenants.
"""

from __future__ import annotations

from typing import NamedTuple

from tiresias.errors import UsageError
from tiresias.sandbox.replay.shared_site import QOS_REQUEUE, QOS_SUSPEND
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.stages import POLICIES, TENANT_RULES
from tiresias.simulator.simulated_placement import BY_SKEW, STYLES

REPORTS, ELASTIC, ASSIST = "reports", "elastic", "assist"
FAIR_SHARE, GROUP_LIMITS, PARTITIONS = "slurm-fairshare", "slurm-grptres", "slurm-private"
PRIVATE_RULE = "private_clusters"
WITHOUT_TENANTS = {"slurm-fifo": "Slurm FIFO", "slurm-backfill": "Slurm backfill"}
_STOCK_TENANTS = {
    FAIR_SHARE: "Slurm fair share",
    GROUP_LIMITS: "Slurm GrpTRES",
    PARTITIONS: "Slurm private partitions",
}
_WITH_QOS = {QOS_REQUEUE: "Slurm QOS, REQUEUE", QOS_SUSPEND: "Slurm QOS, SUSPEND,GANG"}
STOCK_POLICIES = WITHOUT_TENANTS | _WITH_QOS | _STOCK_TENANTS
_OWN_LABELS = {"las": "Tiresias-L", "gittins": "Tiresias-G", "fifo": "Tiresias, FIFO"}
_STYLES = tuple(style for style in STYLES if style != BY_SKEW)


class ReplayPolicy(NamedTuple):
    """A policy of the controller in a replay.

    Attributes:
        name: The policy as the controller's configuration names it; packages of this host are not installed in the cluster.
        style: Placement of all jobs; BY_SKEW: by their models.
        reports: Whether jobs report their progress.
        rule: The rule by which tenants share the cluster; "": there are no tenants.
        elastic: Whether the jobs are elastic.
        assists: Whether Slurm orders and starts the jobs (mode assist); then no policy does.
    """

    name: str
    style: str = BY_SKEW
    reports: bool = False
    rule: str = ""
    elastic: bool = False
    assists: bool = False

    @classmethod
    def parsed(cls, text: str) -> ReplayPolicy:
        """Return the policy of this name, one of MANAGED_POLICIES."""
        name, *parts = text.split("+")
        if name == ASSIST:
            return cls(PolicyConfig().name, assists=True)
        style = next((part for part in parts if part in _STYLES), BY_SKEW)
        rule = next((part for part in parts if part in TENANT_RULES.built_in), "")
        return cls(name, style, REPORTS in parts, rule, ELASTIC in parts)

    @property
    def text(self) -> str:
        """The name of this policy in a replay."""
        if self.assists:
            return ASSIST
        style = [] if self.style == BY_SKEW else [self.style]
        marks = [(self.reports, REPORTS), (bool(self.rule), self.rule), (self.elastic, ELASTIC)]
        return "+".join([self.name, *style, *(mark for is_set, mark in marks if is_set)])

    @property
    def label(self) -> str:
        """The heading of its column."""
        if self.assists:
            return "Tiresias, assist"
        words = [_OWN_LABELS.get(self.name) or f"Tiresias, {_words(self.name)}"]
        words += [] if self.style == BY_SKEW else [_words(self.style)]
        words += [_words(self.rule)] if self.rule else []
        return ", ".join([*words, *([REPORTS] if self.reports else []), *([ELASTIC] if self.elastic else [])])


def _words(name: str) -> str:
    return name.replace("_", " ")


_MANAGED = [
    ReplayPolicy(name, style, reports)
    for reports in (False, True)
    for style in (BY_SKEW, *_STYLES)
    for name in POLICIES.built_in
] + [ReplayPolicy(name, rule=rule) for rule in TENANT_RULES.built_in for name in POLICIES.built_in]
_MANAGED += [
    ReplayPolicy(name, reports=reports, elastic=True) for reports in (False, True) for name in POLICIES.built_in
]
_MANAGED.append(ReplayPolicy.parsed(ASSIST))
MANAGED_POLICIES = {policy.text: policy.label for policy in _MANAGED}
LABELS = MANAGED_POLICIES | STOCK_POLICIES
SHOWN = (*POLICIES.built_in, ASSIST, *STOCK_POLICIES)


def has_tenants(policy: str) -> bool:
    """Return whether the policy of this name, one of LABELS, distinguishes tenants."""
    return policy in _STOCK_TENANTS or bool(policy in MANAGED_POLICIES and ReplayPolicy.parsed(policy).rule)


def private_counterpart(policy: str) -> str:
    """Return the policy in which each tenant has nodes of its own, with the same order of jobs; "" if there is none."""
    if policy in STOCK_POLICIES:
        return PARTITIONS
    parsed = ReplayPolicy.parsed(policy)
    return parsed._replace(rule=PRIVATE_RULE).text if parsed.rule else ""


def is_private(policy: str) -> bool:
    """Return whether each tenant has nodes of its own, so that none of its jobs may be larger."""
    return has_tenants(policy) and private_counterpart(policy) == policy


def check_names(names: list[str]) -> None:
    """Raises UsageError for a name that no policy has."""
    for name in names:
        if name not in LABELS:
            raise UsageError(
                f"no policy {name!r}: use any of {', '.join(SHOWN)}; after a policy of the controller, +{REPORTS} (jobs report "
                f"their progress) and +{ELASTIC} (jobs change their size) or, for all jobs in one placement, + and one of "
                f"{', '.join(_STYLES)}, such as las+random; with tenants + and one of {', '.join(TENANT_RULES.built_in)}"
            )
