"""Properties of the virtual clusters over random trees, VCs, requests, faults, restarts and reconfigurations.

`python -m tests.scheduler.virtual_clusters.random_cells --events 100000 --seed N` runs more events of the same kinds.
"""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scheduler.virtual_clusters.random_cells import Campaign, random_specification
from tiresias.scheduler.virtual_clusters.affinity_group import GroupState
from tiresias.scheduler.virtual_clusters.cell_invariants import violations
from tiresias.scheduler.virtual_clusters.gang_requests import BoundGang, GangRequest
from tiresias.scheduler.virtual_clusters.virtual_clusters import VirtualClusters

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=examples(300), deadline=None)
@given(seeds)
def test_every_event_keeps_all_invariants(seed: int) -> None:
    Campaign(seed).run(60)


@settings(max_examples=examples(200), deadline=None)
@given(seeds)
def test_a_guaranteed_gang_inside_its_cells_always_starts_on_healthy_hardware(seed: int) -> None:
    Campaign(seed, faults=False).run(60)  # `Campaign` asserts it at each request


@settings(max_examples=examples(100), deadline=None)
@given(seeds)
def test_deletions_restore_the_initial_free_cells_in_any_order(seed: int) -> None:
    campaigns = [Campaign(seed, check=False) for _ in range(2)]
    for number, campaign in enumerate(campaigns):
        campaign.run(40)
        names = sorted(campaign.clusters.groups)
        random.Random(seed + number).shuffle(names)
        for name in names:
            campaign.clusters.delete(name)
        for node in sorted(campaign.clusters.cells.bad.nodes):
            campaign.clusters.node_healthy(node)
        assert list(violations(campaign.clusters)) == []
    fresh = VirtualClusters(campaigns[0].clusters.cells.spec)
    assert _free(campaigns[0].clusters) == _free(campaigns[1].clusters) == _free(fresh)


@settings(max_examples=examples(100), deadline=None)
@given(seeds)
def test_other_cells_can_be_doomed_at_any_time(seed: int) -> None:
    campaign = Campaign(seed, check=False)
    campaign.run(60)
    cells = campaign.clusters.cells
    held = {name: group.virtual for name, group in campaign.clusters.groups.items()}
    for state in cells.chains.values():
        cells.bad.release_unused(state)
        cells.bad.doom_all(state)
    assert list(violations(campaign.clusters)) == []
    assert {name: group.virtual for name, group in campaign.clusters.groups.items()} == held


def _free(clusters: VirtualClusters) -> dict[str, list[list[str]]]:
    chains = clusters.cells.chains.items()
    return {name: [sorted(cell.address for cell in level) for level in state.free] for name, state in chains}


@settings(max_examples=examples(100), deadline=None)
@given(seeds)
def test_the_same_requests_have_the_same_decisions(seed: int) -> None:
    def decisions() -> list[object]:
        rng = random.Random(seed)
        clusters = VirtualClusters(random_specification(rng))
        vcs = list(clusters.cells.clusters)
        requests = [
            GangRequest(f"g{n}", rng.choice(vcs), rng.choice((-1, 0, 1)), ((1, rng.randint(1, 3)),)) for n in range(20)
        ]
        return [clusters.schedule(request) for request in requests]

    assert decisions() == decisions()


@settings(max_examples=examples(100), deadline=None)
@given(seeds)
def test_no_gpu_is_bound_twice(seed: int) -> None:
    campaign = Campaign(seed, check=False)
    for _ in range(60):
        campaign.step()
        users: dict[tuple[str, int], str] = {}
        for name, group in campaign.clusters.groups.items():
            if group.state != GroupState.PREEMPTING:
                bound = [(leaf.nodes[0], leaf.leaf_index) for leaf in group.leaves()]
                assert not users.keys() & set(bound)
                users |= dict.fromkeys(bound, name)


def test_a_decision_is_repeated_for_a_bound_gang() -> None:
    campaign = Campaign(3, faults=False)
    campaign.run(40)
    bound = [group for group in campaign.clusters.groups.values() if group.state == GroupState.ALLOCATED]
    assert bound
    for group in bound:
        decision = campaign.clusters.schedule(group.request)
        assert isinstance(decision, BoundGang)
        assert sum(len(pod.leaves) for pod in decision.pods) == sum(group.request.sizes)
