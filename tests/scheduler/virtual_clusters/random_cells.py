"""Random events on random specifications, for the property tests and for long campaigns.

    python -m tests.scheduler.virtual_clusters.random_cells --events 100000 --seed 1

prints what it ran, and fails at the first broken invariant with the seed of the run. One specification of four is that of
`two_racks.py`, and one run of three has no bad nodes.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter

from tests.scheduler.virtual_clusters.random_specifications import random_specification
from tests.scheduler.virtual_clusters.two_racks import SPEC
from tiresias.errors import UsageError
from tiresias.scheduler.virtual_clusters.affinity_group import GroupState
from tiresias.scheduler.virtual_clusters.bound_gangs import bound_gang
from tiresias.scheduler.virtual_clusters.cell import FREE
from tiresias.scheduler.virtual_clusters.cell_invariants import violations
from tiresias.scheduler.virtual_clusters.gang_requests import BoundGang, GangRequest, PreemptGangs, Waiting
from tiresias.scheduler.virtual_clusters.specification import CellSpecification, DeclaredVirtualCluster
from tiresias.scheduler.virtual_clusters.virtual_clusters import VirtualClusters
from tiresias.scheduler.virtual_clusters.wait_reasons import WaitCode


class Campaign:
    """Random events on one specification; each leaves all invariants intact.

    Attributes:
        clusters: The virtual clusters.
        first: Their first specification, to which a reconfiguration can return.
        counts: Numbers of events and decisions.
    """

    def __init__(
        self, seed: int, *, faults: bool = True, check: bool = True, spec: CellSpecification | None = None
    ) -> None:
        self.rng = random.Random(seed)
        self.seed, self.faults, self.check = seed, faults, check
        self.first = spec or random_specification(self.rng)
        self.clusters = VirtualClusters(self.first)
        self.nodes = list(self.clusters.cells.physical.leaves)
        self.shares = self._shares()
        self.guaranteed = self.rng.choice((0.4, 0.6, 0.9))
        self.counts: Counter[str] = Counter()
        self.number = 0
        self.preempting: dict[str, tuple[GangRequest, tuple[str, ...]]] = {}

    def _shares(self) -> dict[str, float]:
        """Return how often each kind of event occurs: from an idle to a full cluster, from few faults to many."""
        load, faults, changes = self.rng.choice((1, 1.3, 2)), self.rng.choice((0.04, 0.12, 0.3)), 0.03
        shares = {"schedule": load, "delete": 0.7, "finish": 0.4, "restart": changes, "reconfigure": changes}
        return shares | ({"bad": faults, "healthy": faults} if self.faults else {})

    def run(self, events: int) -> None:
        """Apply some events."""
        for _ in range(events):
            self.step()

    def step(self) -> None:
        """Apply one event and check everything. A gang loses its guarantee by lazy preemption only, if it permits that."""
        kind = self.rng.choices(list(self.shares), list(self.shares.values()))[0]
        self.counts[kind] += 1
        before = self._guaranteed_gangs()
        getattr(self, f"_{kind}")()
        lost = [name for name in before - self._guaranteed_gangs() if name in self.clusters.groups]
        permitted = kind in ("schedule", "finish") and all(
            self.clusters.groups[name].request.lazy_preemption for name in lost
        )
        assert permitted or not lost, f"seed {self.seed}, event {sum(self.counts.values())}, {kind}: {lost}"
        if self.check:
            broken = list(violations(self.clusters))
            assert not broken, f"seed {self.seed}, event {sum(self.counts.values())}, {kind}: {broken[:3]}"

    def _guaranteed_gangs(self) -> set[str]:
        """Gangs that use cells of their VC; one that has only reserved them can still start elsewhere."""
        groups = self.clusters.groups.items()
        return {name for name, group in groups if group.virtual is not None and group.state != GroupState.PREEMPTING}

    def _request(self) -> GangRequest:
        self.number += 1
        rng, cells = self.rng, self.clusters.cells
        vc = rng.choice(list(cells.clusters))
        chain = rng.choice(list(cells.levels.values()))
        most = chain.at(chain.node_level).leaves
        members = tuple((rng.randint(1, 3), rng.randint(1, most)) for _ in range(rng.choice((1, 1, 1, 2))))
        priority = rng.randint(0, 2) if rng.random() < self.guaranteed else -1
        pinned = rng.choice([*cells.clusters[vc].pinned, ""]) if priority >= 0 else ""
        leaf_type = rng.choice((chain.leaf_type, ""))
        return GangRequest(f"g{self.number}", vc, priority, members, leaf_type, pinned, rng.random() < 0.5)

    def _schedule(self) -> None:
        request = self._request()
        suggested = None
        if self.rng.random() < 0.1:
            suggested = frozenset(self.rng.sample(self.nodes, self.rng.randint(1, len(self.nodes))))
        certain = suggested is None and not self.clusters.cells.bad.nodes and _fits(self.clusters, request)
        try:
            decision = self.clusters.schedule(request, suggested)
        except UsageError:
            assert not certain
            self.counts["refused"] += 1
            return
        self.counts[type(decision).__name__] += 1
        if isinstance(decision, Waiting):
            healthy = suggested is None and not self.clusters.cells.bad.nodes
            assert not certain, (self.seed, request)
            assert not (healthy and decision.reason.code == WaitCode.NO_HARDWARE), (self.seed, request)
        if isinstance(decision, PreemptGangs):
            self._check_victims(request, decision, certain=certain)
            self.preempting[request.gang] = request, decision.victims

    def _check_victims(self, request: GangRequest, decision: PreemptGangs, *, certain: bool) -> None:
        """Victims that are guaranteed are of the same VC. A gang that fits into free cells has none, where it may use one chain
        only: the chains are tried one after the other, each with the GPUs of lower priorities, too."""
        groups = self.clusters.groups
        guaranteed = [groups[victim] for victim in decision.victims if groups[victim].virtual is not None]
        assert all(group.cluster == request.cluster for group in guaranteed), (self.seed, request)
        types = [chain.leaf_type for chain in self.clusters.cells.levels.values()]
        chains = types.count(request.leaf_type) if request.leaf_type else len(types)
        assert not (guaranteed and certain and chains == 1), (self.seed, request)

    def _finish(self) -> None:
        """Delete the victims of a preemption and bind its gang."""
        for name in [name for name in self.preempting if name not in self.clusters.groups]:
            del self.preempting[name]
        if not self.preempting:
            return
        name = self.rng.choice(list(self.preempting))
        request, victims = self.preempting.pop(name)
        for victim in victims:
            self.clusters.delete(victim)
        decision = self.clusters.schedule(request)
        if isinstance(decision, PreemptGangs):
            self.preempting[name] = request, decision.victims
        elif not self.clusters.cells.bad.nodes:
            assert isinstance(decision, BoundGang), (self.seed, request, decision)

    def _delete(self) -> None:
        if self.clusters.groups:
            self.clusters.delete(self.rng.choice(list(self.clusters.groups)))

    def _bad(self) -> None:
        self.clusters.node_bad(self.rng.choice(self.nodes))

    def _healthy(self) -> None:
        if self.clusters.cells.bad.nodes:
            self.clusters.node_healthy(self.rng.choice(sorted(self.clusters.cells.bad.nodes)))

    def _restart(self) -> None:
        """Recover all running gangs in another order; no gang loses its guarantee."""
        groups = [group for group in self.clusters.groups.values() if group.state != GroupState.PREEMPTING]
        running = list(map(bound_gang, groups))
        self.rng.shuffle(running)
        after = VirtualClusters(self.clusters.cells.spec)
        bad = sorted(self.clusters.cells.bad.nodes)
        early = self.rng.random() < 0.5
        for node in bad * early:
            after.node_bad(node)
        changed = after.recover(running)
        for node in bad * (not early):
            after.node_bad(node)
        assert changed == (), f"seed {self.seed}, event {sum(self.counts.values())}: {changed} lost the guarantee"
        assert list(map(bound_gang, sorted(after.groups.values(), key=_name))) == sorted(running, key=_gang)
        self.clusters = after

    def _reconfigure(self) -> None:
        """Other cells for the VCs, or other hardware: all or nothing."""
        before = [bound_gang(group) for group in self.clusters.groups.values() if group.state != GroupState.PREEMPTING]
        spec = self.clusters.cells.spec
        kind = self.rng.choices(("first", "fewer", "any"), (0.4, 0.4, 0.2))[0]
        other = {"first": lambda: self.first, "fewer": lambda: _fewer(spec, self.rng)}.get(
            kind, lambda: random_specification(self.rng)
        )()
        try:
            self.clusters.reconfigure(other)
        except UsageError:
            self.counts["refused reconfiguration"] += 1
            assert self.clusters.cells.spec is spec
            return
        self.nodes = list(self.clusters.cells.physical.leaves)
        after = {name: bound_gang(group).pods for name, group in self.clusters.groups.items()}
        expected = {bound.request.gang: bound.pods for bound in before}
        assert after == expected, (self.seed, after, expected)


def _name(group: object) -> str:
    return str(getattr(group, "name"))  # noqa: B009


def _gang(bound: BoundGang) -> str:
    return bound.request.gang


def _fewer(spec: CellSpecification, rng: random.Random) -> CellSpecification:
    """Return the specification without one group of a VC's cells."""
    clusters = dict(spec.virtual_clusters)
    vc = rng.choice(list(clusters))
    if clusters[vc].cells:
        cells = list(clusters[vc].cells)
        cells.pop(rng.randrange(len(cells)))
        clusters[vc] = DeclaredVirtualCluster(tuple(cells), clusters[vc].pinned)
    return CellSpecification(spec.cell_types, spec.physical_cells, clusters)


def _fits(clusters: VirtualClusters, request: GangRequest) -> bool:
    """Whether one pod fits into one unused preassigned cell of the VC, no smaller than the pod and no larger than a node."""
    if not request.guaranteed or request.pinned or len(request.sizes) != 1:
        return False
    for levels in clusters.cells.clusters[request.cluster].preassigned.values():
        for cell in (cell for level in levels for cell in level):
            own = cell.chain.at(min(cell.level, cell.chain.node_level))
            if (
                cell.priority == FREE
                and own.leaves >= request.sizes[0]
                and request.leaf_type in ("", cell.chain.leaf_type)
            ):
                return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    total: Counter[str] = Counter()
    seed, events = options.seed, 0
    while events < options.events:
        campaign = Campaign(seed, faults=seed % 3 != 0, spec=SPEC if seed % 4 == 0 else None)
        campaign.run(200)
        total += campaign.counts
        seed, events = seed + 1, events + 200
    print(f"{events} events, seeds {options.seed} to {seed - 1}: no invariant broken. {dict(total.most_common())}")


if __name__ == "__main__":
    main()
