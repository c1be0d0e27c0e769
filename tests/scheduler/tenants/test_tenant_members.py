"""Which jobs belong to a virtual cluster, and whose policy orders them, by the keys of its table."""

from __future__ import annotations

from typing import Any

import pytest

from tiresias.errors import UsageError
from tiresias.scheduler.tenants.tenant_members import TenantMembers, check_members, tenant_members
from tiresias.scheduler.tenants.tenant_tables import policy_name


def test_each_given_list_has_the_job() -> None:
    members = tenant_members("a", {"accounts": ["vision", "speech"], "partitions": ["gpu"]})
    assert members == TenantMembers(("vision", "speech"), (), ("gpu",))
    assert members.has("speech", "any", "gpu")
    assert not members.has("text", "any", "gpu")
    assert not members.has("speech", "any", "gpu,cpu"), "of several partitions, all"


def test_no_list_is_no_member() -> None:
    assert not tenant_members("a", {"name": "a"})


@pytest.mark.parametrize("value", ["vision", [], [1], [""], ["a b"], ["a,b"], ["a\n"], {"x": 1}])
def test_what_is_no_list_of_names_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match=r"virtual cluster a: qos = .* is not possible; give a list of names"):
        tenant_members("a", {"qos": value})


def test_an_account_in_two_virtual_clusters_is_refused() -> None:
    with pytest.raises(UsageError, match=r"virtual clusters a and b both claim account x"):
        check_members({"a": TenantMembers(("x", "y")), "b": TenantMembers(("x",))})


@pytest.mark.parametrize(
    ("members", "word"),
    [(TenantMembers(qos=("x",)), "QOS x"), (TenantMembers(partitions=("x",)), "partition x")],
)
def test_so_is_a_qos_or_a_partition_in_two(members: TenantMembers, word: str) -> None:
    with pytest.raises(UsageError, match=f"virtual clusters a and b both claim {word}; give it to one of them"):
        check_members({"a": members, "b": members})


def test_another_list_keeps_them_apart() -> None:
    check_members(
        {"a": TenantMembers(("x",), ("high",)), "b": TenantMembers(("x",), ("low",)), "c": TenantMembers(("z",))}
    )


@pytest.mark.parametrize("value", ["lass", 1, "", ["las"]])
def test_an_unknown_policy_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match=r"virtual cluster a: policy = .* is not possible; allowed: las, fifo"):
        policy_name("a", {"policy": value}, "las", ("las", "fifo"))


def test_the_default_policy() -> None:
    assert policy_name("a", {}, "las", ("las", "fifo")) == "las"
    assert policy_name("a", {"policy": "fifo"}, "las", ("las", "fifo")) == "fifo"
