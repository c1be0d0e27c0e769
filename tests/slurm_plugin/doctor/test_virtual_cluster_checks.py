"""What the doctor reports of virtual clusters: cells, mapping, partitions, and limits of Slurm that contradict them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.slurm_plugin.sockets.test_publication import NODE
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.slurm_plugin.backends.interface import SlurmNode
from tiresias.slurm_plugin.backends.slurm_rules import Association, Partition, Qos, SlurmRules, Tres
from tiresias.slurm_plugin.cluster.finding import Finding, Level
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.doctor.virtual_cluster_findings import findings


@dataclass(frozen=True)
class Cluster:
    tenant: DeclaredTenant
    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()


def cluster(name: str = "prod-a", nodes: int = 2, leaves: int = 0, **lists: tuple[str, ...]) -> Cluster:
    cells = [DeclaredCells("leaf", leaves)] if leaves else []
    cells += [DeclaredCells("node", nodes)] if nodes else []
    return Cluster(DeclaredTenant(name, tuple(cells)), **lists)


SIX = tuple(replace(NODE, name=f"gpu0{at}", gpus=8, state="IDLE", features=(f"rack{at % 2}",)) for at in range(1, 7))
ACCOUNTS = {
    (name, "", ""): Association(account=name, parent="root" if name != "root" else "") for name in ("root", "a", "b")
}
RULES = SlurmRules(
    enforce=frozenset({"limits"}), partitions={"gpu": Partition("gpu")}, qos={"normal": Qos(name="normal")}, associations=ACCOUNTS
)  # fmt: skip
CONFIG = replace(Config(), placement=replace(Config().placement, levels=("rack",)))


OUTSIDE = "belong to none"  # jobs of account b, in most tests


def found(clusters: Sequence[Cluster], rules: SlurmRules = RULES, nodes: Sequence[SlurmNode] = SIX) -> list[Finding]:
    every = findings(clusters, nodes, (), rules, CONFIG)
    return [one for one in every if one.level is not Level.FINE and OUTSIDE not in one.words]


def jobs_outside(*clusters: Cluster, rules: SlurmRules = RULES) -> list[str]:
    every = findings(clusters, SIX, (), rules, CONFIG)
    return [one.words.partition(OUTSIDE)[0].strip() for one in every if OUTSIDE in one.words]


def words(*clusters: Cluster, **more: Any) -> list[str]:
    return [f"{one.about}: {one.words}" for one in found(clusters, **more)]


def with_account(name: str, **limits: Any) -> SlurmRules:
    changed = replace(ACCOUNTS[name, "", ""], **limits)
    return replace(RULES, associations=ACCOUNTS | {(name, "", ""): changed})


def test_cells_below_the_node_are_the_parts_that_starts_select() -> None:
    owner = Cluster(DeclaredTenant("prod-a", (DeclaredCells("socket", 3),)))
    config = replace(CONFIG, placement=replace(CONFIG.placement, islands=("socket",), part_types=("s0", "s1")))
    nodes = [replace(node, gpu_type="s0,s1", gpus_by_type=(("s0", 4), ("s1", 4))) for node in SIX]
    selects, old = (
        [one.words for one in findings([owner], nodes, (), RULES, config, types) if one.about == "virtual clusters"]
        for types in (("s0", "s1"), ())
    )
    assert selects[0] == "the cells of 1 fit into the nodes"
    assert "no cells of level socket" in old[0], "this Slurm does not select parts"


def test_virtual_clusters_that_fit_are_fine() -> None:
    every = [*findings([cluster(accounts=("a",)), cluster("dev", accounts=("b",))], SIX, (), RULES, CONFIG)]
    assert [one.level for one in every] == [Level.FINE, Level.FINE]


def test_cells_that_do_not_fit_block() -> None:
    (one,) = found([cluster(nodes=7)])
    assert one.level is Level.BLOCKS
    assert "own 7 cells of type node" in one.words
    assert "6 are left" in one.words
    (one,) = found([cluster(leaves=1, nodes=4)])
    assert "own 4 cells of type node" in one.words
    assert "3 are left" in one.words


def test_cells_that_do_not_fit_the_healthy_nodes_are_a_risk() -> None:
    down = [replace(node, state="DOWN") if node.name in ("gpu01", "gpu02") else node for node in SIX]
    (one,) = found([cluster(nodes=5)], nodes=down)
    assert one.level is Level.RISK
    assert one.words == "virtual clusters own 5 cells of type node, parts of larger ones included; 4 are healthy now"
    assert "repair gpu01, gpu02" in one.remedy
    assert "own 1 cells of type leaf" in words(cluster(leaves=1, nodes=0), nodes=down)[0]


def pinned(*nodes: str, **lists: tuple[str, ...]) -> Cluster:
    return Cluster(DeclaredTenant("prod-a", tuple(DeclaredCells("node", nodes=(name,)) for name in nodes)), **lists)


def test_pinned_hardware_that_is_down_is_named() -> None:
    down = [replace(node, state="DOWN") if node.name == "gpu01" else node for node in SIX]
    assert words(pinned("gpu01", "gpu02"), nodes=down) == [
        "virtual clusters: gpu01 is down, drained or reserved, in the cell of prod-a that is pinned to gpu01"
    ]
    assert words(pinned("gpu03"), nodes=down) == []


def test_pinned_hardware_that_does_not_exist_blocks() -> None:
    (one,) = found([pinned("gpu09")])
    assert (one.level, one.words) == (
        Level.BLOCKS,
        "virtual cluster prod-a: nodes = gpu09: there is no node gpu09 with GPUs",
    )


def test_cells_that_are_all_pinned_to_nodes_of_the_partitions_are_fine() -> None:
    two = [replace(node, partitions=("gpu", "own") if node.name < "gpu04" else ("gpu",)) for node in SIX]
    config = replace(CONFIG, partitions=("gpu", "own"))
    rules = replace(RULES, partitions={name: Partition(name) for name in ("gpu", "own")})
    for name, text in (("gpu03", ""), ("gpu04", "its cells may be bound to gpu04, where these cannot run")):
        every = findings([pinned(name, partitions=("own",))], two, (), rules, config)
        of_cluster = [one for one in every if one.level is not Level.FINE and one.about.startswith("virtual cluster ")]
        assert [one.words.partition(", and ")[2] for one in of_cluster] == [text] * bool(text)


def test_a_limit_below_pinned_cells() -> None:
    (one,) = words(pinned("gpu01", "gpu02", accounts=("a",)), rules=with_account("a", grp_tres={"gres/gpu": 8.0}))
    assert "is below the 16 GPUs of its cells" in one


def test_names_that_slurm_does_not_have_are_named() -> None:
    assert words(cluster(accounts=("a", "x"))) == ["virtual cluster prod-a: account x does not exist"]
    assert words(cluster(qos=("high",))) == ["virtual cluster prod-a: QOS high does not exist"]
    assert words(cluster(partitions=("cpu",)))[0] == "virtual cluster prod-a: partition cpu does not exist"
    unread = replace(RULES, associations={}, qos={})
    assert words(cluster(accounts=("x",), qos=("high",)), rules=unread) == []


def test_a_virtual_cluster_behind_another_one_is_reached_by_no_job() -> None:
    assert words(cluster("all"), cluster("dev", accounts=("a",))) == [
        "virtual cluster dev: no job reaches it: all of its jobs belong to all, which stands before it"
    ]
    assert words(cluster("dev", accounts=("a",)), cluster("all")) == []
    assert words(cluster("a", accounts=("a",), qos=("normal",)), cluster("dev", accounts=("a",))) == []


def test_partitions_that_accept_none_of_its_jobs() -> None:
    partition = Partition("gpu", allow_accounts=frozenset({"b"}), deny_qos=frozenset({"normal"}))
    rules = replace(RULES, partitions={"gpu": partition})
    assert words(cluster(accounts=("a",)), rules=rules) == [
        "virtual cluster prod-a: no job reaches it: partition gpu allows none of the accounts a"
    ]
    assert "none of the QOS normal" in words(cluster(accounts=("b",), qos=("normal",)), rules=rules)[0]


def test_nodes_outside_of_the_managed_partitions_and_of_its_own() -> None:
    nodes = [*SIX, replace(SIX[0], name="gpu07", partitions=("other",))]
    assert words(cluster(), nodes=nodes) == ["virtual clusters: gpu07 is in no managed partition: no cell contains it"]
    two = [replace(node, partitions=("gpu", "own") if node.name < "gpu04" else ("gpu",)) for node in SIX]
    config = replace(CONFIG, partitions=("gpu", "own"))
    rules = replace(RULES, partitions={name: Partition(name) for name in ("gpu", "own")})
    every = findings([cluster(partitions=("own",))], two, (), rules, config)
    (one,) = (each for each in every if each.level is not Level.FINE and OUTSIDE not in each.words)
    assert "may be bound to gpu04, gpu05, gpu06, where these cannot run" in one.words


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"grp_tres": {"gres/gpu": 8.0}}, "GrpTRES=gres/gpu=8 of account a is below the 16 GPUs of its cells"),
        ({"max_tres": {"gres/gpu": 4.0}}, "MaxTRESPerJob=gres/gpu=4 of account a is below the 8 GPUs of a node"),
    ],
)  # fmt: skip
def test_a_limit_of_an_account_below_the_cells(limits: dict[str, Tres], text: str) -> None:
    (one,) = words(cluster(accounts=("a",)), rules=with_account("a", **limits))
    assert one.rpartition(": ")[0] == f"virtual cluster prod-a: {text}"


def test_a_limit_that_is_no_contradiction() -> None:
    enough = with_account("a", grp_tres={"gres/gpu": 16.0}, max_tres={"gres/gpu": 8.0})
    assert words(cluster(accounts=("a",)), rules=enough) == []
    two_accounts = with_account("a", grp_tres={"gres/gpu": 8.0})
    assert words(cluster(accounts=("a", "b")), rules=two_accounts) == [], "account b has no limit"
    off = replace(with_account("a", grp_tres={"gres/gpu": 8.0}), enforce=frozenset())
    assert words(cluster(accounts=("a",)), rules=off) == []


def test_a_limit_above_an_account() -> None:
    rules = with_account("root", grp_tres={"gres/gpu": 10.0})
    assert words(cluster(accounts=("a",)), rules=rules) == [
        "virtual cluster prod-a: GrpTRES=gres/gpu=10 of account root, above its accounts is below the 16 GPUs of its cells: its "
        "jobs wait although cells are free"
    ]


def test_limits_of_qos_and_partitions() -> None:
    qos = Qos(name="normal", grp_tres={"gres/gpu": 4.0}, max_tres_user={"gres/gpu": 2.0})
    rules = replace(RULES, qos={"normal": qos}, partitions={"gpu": Partition("gpu", max_nodes=1)})
    texts = words(cluster(leaves=1, nodes=0, qos=("normal",), partitions=("gpu",)), rules=rules)
    assert [text.partition(" is below ")[0] for text in texts] == [
        "virtual cluster prod-a: GrpTRES=gres/gpu=4 of QOS normal",
        "virtual cluster prod-a: MaxTRESPerUser=gres/gpu=2 of QOS normal",
        "virtual cluster prod-a: MaxNodes=1 of partition gpu",
    ]


def test_limits_of_a_gpu_type() -> None:
    nodes = [replace(node, gpu_type="h100") for node in SIX]
    rules = with_account("a", grp_tres={"gres/gpu:h100": 8.0, "gres/gpu:v100": 0.0})
    (text,) = words(cluster(accounts=("a",)), rules=rules, nodes=nodes)
    assert text.startswith("virtual cluster prod-a: GrpTRES=gres/gpu:h100=8 of account a is below the 16 GPUs")


def test_jobs_that_belong_to_no_virtual_cluster() -> None:
    """Accounts with accounts below them have no jobs, unless they have users of their own."""
    assert jobs_outside(cluster(accounts=("a", "b"))) == []
    assert jobs_outside(cluster(accounts=("a",))) == ["jobs of account b"]
    assert jobs_outside(cluster(accounts=("a",)), cluster("rest", qos=("normal",))) == []
    assert jobs_outside(cluster(qos=("high",))) == ["jobs of QOS normal"]
    assert jobs_outside(cluster(partitions=("own",))) == ["jobs of partition gpu"]
    own = {("root", "eve", ""): Association(account="root", user="eve")}
    assert jobs_outside(cluster(accounts=("a", "b")), rules=replace(RULES, associations=ACCOUNTS | own)) == [
        "jobs of account root"
    ]


def test_accounts_that_no_managed_partition_admits_have_no_jobs() -> None:
    closed = replace(RULES, partitions={"gpu": Partition("gpu", deny_accounts=frozenset({"b"}))})
    assert jobs_outside(cluster(accounts=("a",)), rules=closed) == []
    (one,) = (each for each in findings([cluster(accounts=("a",))], SIX, (), RULES, CONFIG) if OUTSIDE in each.words)
    assert one.level is Level.RISK
    assert "wait for ever" in one.words
    assert "tsbatch --opportunistic=restart" in one.remedy
