"""The names of a replay's policies: all that the controller runs, with reports and placements."""

from __future__ import annotations

import pytest

from tiresias.errors import UsageError
from tiresias.sandbox.replay.replay_policies import (
    LABELS,
    MANAGED_POLICIES,
    STOCK_POLICIES,
    ReplayPolicy,
    check_names,
    has_tenants,
    is_private,
    private_counterpart,
)
from tiresias.scheduler.stages import POLICIES, TENANT_RULES


def test_every_policy_of_the_controller_can_be_replayed_with_and_without_reports() -> None:
    for name in POLICIES.built_in:
        assert {name, f"{name}+reports", f"{name}+random", f"{name}+random+reports"} <= MANAGED_POLICIES.keys()
    assert not MANAGED_POLICIES.keys() & STOCK_POLICIES.keys()


def test_tenants_share_by_each_rule_of_the_controller_and_as_slurm_has_them() -> None:
    for rule in TENANT_RULES.built_in:
        assert {f"{name}+{rule}" for name in POLICIES.built_in} <= MANAGED_POLICIES.keys()
        assert ReplayPolicy.parsed(f"las+{rule}") == ReplayPolicy("las", rule=rule)
    assert {name for name in STOCK_POLICIES if has_tenants(name)} == {
        "slurm-fairshare",
        "slurm-grptres",
        "slurm-private",
    }
    assert not has_tenants("las+random")


@pytest.mark.parametrize(
    ("policy", "private"),
    [
        ("las+virtual_clusters", "las+private_clusters"),
        ("fifo+gpu_quotas", "fifo+private_clusters"),
        ("las+private_clusters", "las+private_clusters"),
        ("las", ""),
        ("slurm-grptres", "slurm-private"),
        ("slurm-backfill", "slurm-private"),
    ],
)
def test_a_policy_is_compared_with_the_same_order_on_private_nodes(policy: str, private: str) -> None:
    assert private_counterpart(policy) == private
    assert is_private(policy) == (policy == private)


def test_a_name_is_read_as_it_is_written() -> None:
    assert ReplayPolicy.parsed("adaptive+reports") == ReplayPolicy("adaptive", reports=True)
    assert ReplayPolicy.parsed("las+first_fit+reports") == ReplayPolicy("las", "first_fit", True)
    for text in MANAGED_POLICIES:
        assert ReplayPolicy.parsed(text).text == text


def test_mode_assist_has_no_policy_of_its_own() -> None:
    assert ReplayPolicy.parsed("assist").assists
    assert not has_tenants("assist")
    assert LABELS["assist"] == "Tiresias, assist"


def test_labels_differ() -> None:
    assert len(set(LABELS.values())) == len(LABELS)
    assert LABELS["las"] == "Tiresias-L"
    assert LABELS["adaptive+reports"] == "Tiresias, adaptive, reports"
    assert LABELS["las+first_fit"] == "Tiresias-L, first fit"


@pytest.mark.parametrize(
    "name", ["lax", "las+reports+random", "las+skew", "las+random+gpu_quotas", "slurm-fifo+reports", "srtf", ""]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="use any of las"):
        check_names(["las", name])
