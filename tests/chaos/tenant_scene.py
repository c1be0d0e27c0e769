"""The scene of the campaign with virtual clusters: racks, accounts, and a controller that shares the nodes among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.chaos.scene import USERS, Job, Scene
from tests.chaos.tenants import GPUS_PER_NODE, NODES, NODES_PER_RACK, OWNED, PART_TYPES, PARTED, Tenant
from tests.chaos.troubles import Troubles
from tiresias.sandbox import accounts


class TenantScene(Scene):
    """12 nodes in four racks; both users may use each account."""

    tenants: Mapping[str, Tenant] = OWNED
    shape: Mapping[str, Any] = {
        "nodes": NODES,
        "gpus_per_node": GPUS_PER_NODE,
        "topology": "tree",
        "nodes_per_rack": NODES_PER_RACK,
    }

    further: Mapping[str, str] = {"MinJobAge": "30"}  # ends are seen after an outage of the controller, too

    def _prepare(self, config: dict[str, Any]) -> None:
        accounts.add(self.cluster, dict.fromkeys(self.tenants, ()), USERS)
        super()._prepare({**config, "virtual_clusters": [tenant.table for tenant in self.tenants.values()]})

    def rack(self, node: str) -> int:
        """The number of the rack of a node."""
        return self.cluster.spec.node_names.index(node) // NODES_PER_RACK


class PartScene(TenantScene):
    """The same; each node has two sockets with a GPU type of their own each, which starts select."""

    tenants = PARTED
    shape: Mapping[str, Any] = {
        **TenantScene.shape,
        "sockets_per_node": len(PART_TYPES),
        "gpu_type": ",".join(PART_TYPES),
    }


class TenantTroubles(Troubles):
    """Daemons, nodes and processes that fail, and owners that cancel; no limits of Slurm, which would contradict the guarantee."""

    by_themselves: Mapping[str, int] = {
        "kill_controller": 5, "kill_slurmctld": 2, "restart_slurmctld": 1, "kill_slurmd": 1, "take_node_down": 4,
        "drain_node": 4, "kill_rank": 1, "cancel": 1,
    }  # fmt: skip
    at_steps: Mapping[str, int] = {
        "kill_controller": 5, "kill_slurmctld": 1, "take_node_down": 1, "drain_node": 1, "cancel": 1, "nothing": 4,
    }  # fmt: skip

    def accounts_of(self, job: Job) -> set[str]:
        """Return the accounts that a job has had."""
        return {job.tenant}
