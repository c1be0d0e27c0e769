"""What a replay asks of its clusters; its mistakes in one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tiresias.errors import UsageError
from tiresias.sandbox.replay import setup
from tiresias.sandbox.replay.replay_policies import LABELS, MANAGED_POLICIES, ReplayPolicy, has_tenants
from tiresias.sandbox.replay.replay_tenants import ReplayTenants
from tiresias.sandbox.replay.setup import Options
from tiresias.sandbox.replay.shared_site import preempts
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.generators import paper_testbed
from tiresias.simulator.trace import TraceJob
from tiresias.slurm_plugin.config import load_config

JOBS = [TraceJob("a", 100.0, 8, 7200.0, "", "", "vgg19", ""), TraceJob("b", 160.0, 1, 60.0, "", "", "own", "")]
TENANTS = ReplayTenants.of((DeclaredTenant("Vision", (DeclaredCells("node", 2),)),), ClusterSize(4, 4))


@pytest.mark.parametrize("policy", MANAGED_POLICIES)
def test_the_controller_takes_the_config(policy: str, tmp_path: Path) -> None:
    file = tmp_path / "tiresias.toml"
    chosen = ReplayPolicy.parsed(policy)
    options = Options(time_scale=32.0, thresholds=(3200.0, 32000.0), tenants=TENANTS)
    file.write_text(setup.controller_config(policy, options))
    config = load_config(file, {})
    assert config.mode == ("assist" if chosen.assists else "exact")
    assert config.policy.admission == (chosen.rule or "shared")
    declared = [(each.tenant, each.accounts) for each in config.virtual_clusters]
    assert declared == ([(TENANTS.declared[0], ("vision",))] if chosen.rule else [])
    assert (config.policy.name, config.placement.style) == (chosen.name, chosen.style)
    assert config.policy.thresholds == (100.0, 1000.0)


def test_managed_policies_use_tsbatch_and_stock_ones_sbatch() -> None:
    for policy in LABELS:
        user, name, command = setup.submission(JOBS[0], 0, policy, Options())
        assert (user, name) == ("alice", "vgg19-a")
        assert command[0] == ("tsbatch" if policy in MANAGED_POLICIES else "sbatch")
        gpus = "--elastic=2-32" if policy.endswith("+elastic") else "--gpus=8"
        assert {gpus, "--ntasks=8", "--gpus-per-task=1", "--time=8"} <= set(command)
        assert command[command.index("--seconds") + 1] == "7200.0"


def test_elastic_jobs_have_a_sizing_and_a_speed_by_their_size(tmp_path: Path) -> None:
    options = Options(sizing="minimum_first", scaling=0.8)
    for policy, sizing in (("las+elastic", "minimum_first"), ("las", "fixed")):
        file = tmp_path / "tiresias.toml"
        file.write_text(setup.controller_config(policy, options))
        assert load_config(file, {}).policy.sizing == sizing
        command = setup.submission(JOBS[0], 0, policy, options)[2]
        assert command[command.index("--scaling") + 1] == "0.8", "rigid jobs have the same speed function"
    small = replace(JOBS[0], num_gpus=2)
    assert setup.sizes_of(small, Options(nodes=1)) == "1-4", "no size is larger than the cluster"


def test_an_unknown_model_becomes_the_default() -> None:
    user, name, command = setup.submission(JOBS[1], 1, "las", Options())
    assert (user, name) == ("bob", "resnet50-b")
    assert command[command.index("--model") + 1] == "resnet50"


def test_the_trainer_is_given_whether_its_placement_matters() -> None:
    for options, word in (
        (Options(), "--placement-effect"),
        (Options(placement_effect=False), "--no-placement-effect"),
    ):
        assert word in setup.submission(JOBS[0], 0, "las", options)[2]


def test_the_fewest_nodes_are_requested_on_demand() -> None:
    for gpus, nodes in ((1, 1), (4, 1), (5, 2)):
        command = setup.submission(replace(JOBS[0], num_gpus=gpus), 0, "las", Options(fewest_nodes=True))[2]
        assert f"--nodes={nodes}" in command
    assert not any(word.startswith("--nodes") for word in setup.submission(JOBS[0], 0, "las", Options())[2])


def test_tenants_are_accounts_on_nodes_with_a_topology() -> None:
    options = Options(nodes_per_leaf=3, tenants=TENANTS)
    for policy in ("slurm-fairshare", "las+virtual_clusters", "las"):
        spec = setup.cluster_spec(policy, options, "replay")
        assert (spec.accounting, spec.topology, spec.nodes_per_rack) == (True, "tree", 3)
        assert "--account=vision" in setup.submission(replace(JOBS[0], vc="Vision"), 0, policy, options)[2]
    plain = setup.cluster_spec("slurm-backfill", Options(), "replay")
    assert (plain.accounting, plain.topology) == (False, "flat")


def test_time_limit_is_twice_the_duration_in_whole_minutes() -> None:
    assert setup.time_limit(JOBS[0], Options(time_scale=30.0)) == 8
    assert setup.time_limit(JOBS[0], Options(time_scale=29.0)) == 9
    assert setup.time_limit(JOBS[1], Options(time_scale=30.0)) == 1


def test_take_starts_at_zero_and_compresses() -> None:
    taken = setup.take(JOBS, 0, 3.0)
    assert [job.submit_time for job in taken] == [0.0, 20.0]
    assert len(setup.take(JOBS, 1, 1.0)) == 1


def test_mistakes_are_reported_in_one_line() -> None:
    with pytest.raises(UsageError, match="no policy 'lax': use any of las"):
        setup.check(["lax"], JOBS)
    for policy in ("slurm-private", "las+gpu_quotas"):
        with pytest.raises(UsageError, match="no virtual clusters are declared; give --virtual-clusters FILE"):
            setup.check([policy], JOBS)
    with pytest.raises(UsageError, match="job a: its vc '' is none"):
        setup.check(["las"], JOBS, TENANTS)
    for hostile in ("../x", "a/b", ".hidden", "a b", "a\n", "x" * 81):
        with pytest.raises(UsageError, match="is used as a file name"):
            setup.check(["las"], [TraceJob(hostile, 0.0, 1, 1.0)])


def test_the_testbed_is_fit() -> None:
    setup.check([name for name in LABELS if not (has_tenants(name) or preempts(name))], paper_testbed().jobs())
