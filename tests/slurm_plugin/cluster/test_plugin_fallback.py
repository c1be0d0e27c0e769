"""An implementation of an installed package that fails while the controller runs: built-in ones decide, and nothing is lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Effect, Snapshot
from tiresias.scheduler.place.placer import _place_of
from tiresias.scheduler.plugin import PluginError
from tiresias.scheduler.reasons import reason
from tiresias.scheduler.registry import installed
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmNode, SlurmSnapshot
from tiresias.slurm_plugin.cluster import partition_pools
from tiresias.slurm_plugin.cluster.partition_pools import PartitionPools
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import Config, Placement
from tiresias.slurm_plugin.observation.observer import Observer
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.ledger import Ledger

Install = Callable[[str], tuple[str, Path]]
_numbers = itertools.count()
Make = Callable[..., SlurmJob]
Seen = tuple[Snapshot, SlurmSnapshot]
NODE = SlurmNode(
    name="n1", state="IDLE", flags=frozenset(), reason="", gpus=4, gpus_allocated=0, gpu_type="", cpus=16, cpus_allocated=0,
    memory=64000, memory_allocated=0, features=(), partitions=("gpu",),
)  # fmt: skip
FAILS = {
    "policies": "class found:\n    def rank(self, snapshot, config):\n        if {broken}: raise RuntimeError('out of luck')\n"
    "        return Ranking.of(range(len(snapshot.jobs)))\n",
    "placement": "def found(request, gpus, nodes):\n    if {broken}: raise RuntimeError('out of luck')\n    return None\n",
    "admission": "class found:\n    def admitted(self, snapshot, order):\n        if {broken}: raise RuntimeError('out of luck')\n"
    "        return snapshot.jobs.gpus < 1\n",
    "sizing": "class found:\n    def sizes(self, snapshot, order):\n        if {broken}: raise RuntimeError('out of luck')\n"
    "        return snapshot.jobs.gpus + 0\n",
    "eviction": "class found:\n    def released(self, snapshot, walk):\n        if {broken}: raise RuntimeError('out of luck')\n"
    "        return walk.runs\n",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a package whose implementation fails once the returned file exists. Returns the implementation's name, too."""

    def install(group: str) -> tuple[str, Path]:
        name = f"sudden{next(_numbers)}"  # what was imported under a name stays
        folder, module = tmp_path / "packages", f"acme_{name}"
        info = folder / f"{module}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[tiresias.{group}]\n{name} = {module}:found\n")
        broken = tmp_path / "broken"
        head = "import pathlib, time\nfrom tiresias.scheduler.rank.policy import Ranking\n"
        (folder / f"{module}.py").write_text(
            head + FAILS[group].format(broken=f"pathlib.Path({str(broken)!r}).exists()")
        )
        monkeypatch.syspath_prepend(str(folder))
        installed.cache_clear()
        _place_of.cache_clear()
        return name, broken

    yield install
    installed.cache_clear()
    _place_of.cache_clear()


@pytest.fixture
def seen(journal: Journal, pending: Make) -> Callable[[Config], Seen]:
    def observe(config: Config) -> Seen:
        ledger = Ledger(journal, Scope.of(config))
        slurm = SlurmSnapshot(2000.0, tuple(pending(id=str(n), gpus=2, priority=1) for n in (1, 2, 3)), (NODE,))
        return Observer(config, ledger).observe(slurm, ledger.apply(slurm), {}), slurm

    return observe


def test_las_ranks_with_an_alarm_after_a_failure(package: Install, seen: Callable[[Config], Seen]) -> None:
    name, broken = package("policies")
    config = replace(Config(), policy=PolicyConfig(name=name))
    snapshot, slurm = seen(config)
    pools = PartitionPools(config)
    plan, _ = pools.decide(snapshot, slurm)
    assert (len(plan.starts), pools.alarms) == (2, [])
    broken.touch()
    for _ in range(2):  # and from then on
        plan, (part,) = pools.decide(snapshot, slurm)
        usual = decide(snapshot, PolicyConfig(name="las"))
        assert (plan.starts, plan.effect.tolist()) == (usual.starts, usual.effect.tolist())
        assert part.pool.config.name == "las"
        row = plan.effect.tolist().index(Effect.WAIT)
        assert reason(plan, snapshot, row).endswith(f"Q1 (policy {name} failed, las ranks), place 3 in the order")
        assert len(pools.alarms) == 1
        assert f"policies: '{name}' of package acme_{name}: rank() failed: RuntimeError: out of luck" in pools.alarms[0]
        broken.unlink(missing_ok=True)


def test_las_with_victims_by_rank_replaces_adaptive_once(seen: Callable[[Config], Seen]) -> None:
    config = replace(Config(), policy=PolicyConfig(name="adaptive"))
    snapshot, slurm = seen(config)
    pools = PartitionPools(config)
    assert pools.fall_back(IndexError("list index out of range"))
    plan, (part,) = pools.decide(snapshot, slurm)
    assert plan.starts == decide(snapshot, PolicyConfig(name="las", eviction="by_rank")).starts
    assert (part.pool.config.name, part.pool.config.eviction) == ("las", "by_rank")
    assert "policy adaptive: a decision failed with IndexError: list index out of range" in pools.alarms[0]
    assert not pools.fall_back(IndexError("again")), "las decides already"


def test_nothing_replaces_las(seen: Callable[[Config], Seen]) -> None:
    pools = PartitionPools(replace(Config(), policy=PolicyConfig(name="las", eviction="by_rank")))
    assert not pools.fall_back(IndexError("list index out of range"))
    assert pools.alarms == []


def test_a_policy_that_never_returns_is_given_up(
    package: Install, seen: Callable[[Config], Seen], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FAILS, "placement", "def found(request, gpus, nodes):\n    time.sleep(30 if {broken} else 0)\n")
    monkeypatch.setattr(partition_pools, "DECISION_TIMEOUT_S", 0.5)
    name, broken = package("placement")
    broken.touch()
    config = replace(Config(), placement=Placement(style=name))
    snapshot, slurm = seen(config)
    pools = PartitionPools(config)
    plan, _ = pools.decide(snapshot, slurm)
    assert len(plan.starts) == 2
    assert "a decision took over 0.5 s" in pools.alarms[0]


def test_another_number_of_gpus_than_requested_is_refused(
    package: Install, seen: Callable[[Config], Seen], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FAILS, "sizing", FAILS["sizing"].replace("gpus + 0", "gpus // 2"))
    name, _ = package("sizing")
    snapshot, slurm = seen(Config())
    pools = PartitionPools(replace(Config(), policy=PolicyConfig(sizing=name)))
    plan, _ = pools.decide(snapshot, slurm)
    assert [start.nodes for start in plan.starts] == [(("n1", 2),)] * 2, "the requested GPUs"
    assert f"sizing: '{name}' of package acme_{name}: 1 GPUs for job 1, which requests 2; " in pools.alarms[0]


@pytest.mark.parametrize("group", ["placement", "admission", "sizing"])
def test_built_in_stages_take_over(group: str, package: Install, seen: Callable[[Config], Seen]) -> None:
    name, broken = package(group)
    policy = PolicyConfig(
        admission=name if group == "admission" else "shared", sizing=name if group == "sizing" else "fixed"
    )
    placement = Placement(style=name) if group == "placement" else Placement()
    config = replace(Config(), policy=policy, placement=placement)
    snapshot, slurm = seen(config)
    pools = PartitionPools(config)
    plan, _ = pools.decide(snapshot, slurm)
    assert len(plan.starts) == (0 if group == "admission" else 2)
    broken.touch()
    plan, _ = pools.decide(snapshot, slurm)
    assert len(plan.starts) == 2
    assert f"{group}: '{name}' of package acme_{name}: " in pools.alarms[0]
    waits = plan.effect.tolist().index(Effect.WAIT)
    assert f"{name} failed, the built-in one decides" in reason(plan, snapshot, waits)


def test_the_controller_does_not_start_with_a_bad_one(package: Install) -> None:
    name, broken = package("policies")
    broken.touch()
    with pytest.raises(PluginError, match=r"^policies: 'sudden\d+' of package acme_sudden\d+: rank\(\) failed"):
        PartitionPools(replace(Config(), policy=PolicyConfig(name=name)))
