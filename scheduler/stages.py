"""What installed packages may add to: the stages of `decide`, and trace formats. One line for the name of each implementation.

An installed package adds implementations as entry points of these groups. What is registered is described beside each stage's
Protocol: `rank/policy.py`, `admit/rules.py`, `size/sizing.py`, `place/placements.py`, `evict/eviction.py`. The values are
places, so that this module imports no stage.
"""

from __future__ import annotations

from typing import Any

from tiresias.scheduler.registry import Registry

_HERE = "tiresias.scheduler"
_FORMATS = "tiresias.simulator.formats"

POLICIES: Registry[Any] = Registry(  # these need no knowledge of the future, so the controller can run them
    "tiresias.policies",
    {
        "las": f"{_HERE}.rank.las:LAS",
        "fifo": f"{_HERE}.rank.fifo:FIFO",
        "best_effort": f"{_HERE}.rank.fifo:BEST_EFFORT",
        "sf": f"{_HERE}.rank.shortest_first:SMALLEST_FIRST",
        "time_sharing": f"{_HERE}.rank.time_sharing:TIME_SHARING",
        "gittins": f"{_HERE}.rank.gittins:GITTINS",
        "adaptive": f"{_HERE}.rank.adaptive:ADAPTIVE",
        "continuous_las": f"{_HERE}.rank.continuous_las:CONTINUOUS_LAS",
        "continuous_gittins": f"{_HERE}.rank.continuous_gittins:CONTINUOUS_GITTINS",
    },
    f"{_HERE}.rank.plugin_policy:accepted",
)
CLAIRVOYANT: Registry[Any] = Registry(  # baselines that need run times, which only the simulator has
    "",
    {
        "srtf": f"{_HERE}.rank.shortest_first:SHORTEST_REMAINING_TIME",
        "srsf": f"{_HERE}.rank.shortest_first:SHORTEST_REMAINING_SERVICE",
    },
)
ADMISSION: Registry[Any] = Registry(
    "tiresias.admission", {"shared": f"{_HERE}.admit.rules:SHARED"}, f"{_HERE}.admit.rules:accepted"
)
TENANT_RULES: Registry[Any] = Registry(  # admission rules that share a cluster among virtual clusters
    "",
    {
        "gpu_quotas": f"{_HERE}.tenants.gpu_quotas:GpuQuotas",
        "private_clusters": f"{_HERE}.tenants.private_clusters:PrivateClusters",
        "virtual_clusters": f"{_HERE}.tenants.virtual_cluster_rule:VirtualClusterRule",
    },
)
SIZINGS: Registry[Any] = Registry(
    "tiresias.sizing",
    {
        "fixed": f"{_HERE}.size.sizing:FIXED",
        "minimum_first": f"{_HERE}.size.minimum_first:MINIMUM_FIRST",
        "marginal_gain": f"{_HERE}.size.marginal_gain_sizing:MARGINAL_GAIN",
        "weighted_gain": f"{_HERE}.size.weighted_gain:WEIGHTED_GAIN",
        "drf": f"{_HERE}.size.dominant_shares:DOMINANT_SHARES",
        "tetris": f"{_HERE}.size.shortest_first_steps:SHORTEST_FIRST_STEPS",
    },
    f"{_HERE}.size.sizing:accepted",
)
EVICTIONS: Registry[Any] = Registry(
    "tiresias.eviction",
    {
        "by_policy": f"{_HERE}.evict.cost_aware:BY_POLICY",
        "by_rank": f"{_HERE}.evict.by_rank:BY_RANK",
        "cost_aware": f"{_HERE}.evict.cost_aware:COST_AWARE",
    },
    f"{_HERE}.evict.eviction:accepted",
)
PLACEMENTS: Registry[Any] = Registry(  # the first three in the order of `model.Style`, as a code is a position here
    "tiresias.placement",
    {
        "consolidate": f"{_HERE}.place.consolidate:uneven",
        "spread": f"{_HERE}.place.spread:uneven",
        "apart": f"{_HERE}.place.consolidate:apart",
        "first_fit": f"{_HERE}.place.baselines:first_fit",
        "load_balancing": f"{_HERE}.place.baselines:load_balancing",
        "random": f"{_HERE}.place.baselines:random",
        "even": f"{_HERE}.place.even:even",
        "least_interference": f"{_HERE}.place.least_interference:least_interference",
        "tetris": f"{_HERE}.place.tetris:tetris",
        "learned": f"{_HERE}.place.learned.learned_placement:learned",
        "fastest_nodes": f"{_HERE}.place.fastest_nodes:fastest_nodes",
    },
    f"{_HERE}.place.placements:accepted",
)
TRIAL_ONLY = ("apart",)  # placements that are chosen for trial runs, not by name
# Those that read the context of a placement (`place/placement_context.py`); they honour `Request.gpus_per_node` themselves.
WITH_CONTEXT = ("least_interference", "tetris", "learned", "fastest_nodes")
WITH_INTERFERENCE = ("least_interference", "learned")  # those of them that read the expected interference
TRACE_FORMATS: Registry[Any] = Registry(  # of the simulator; listed here so that all names are known without it
    "tiresias.trace_formats",  # the first format that recognises a file reads it
    {
        "philly": f"{_FORMATS}.philly:FORMAT",
        "helios": f"{_FORMATS}.helios:FORMAT",
        "acme": f"{_FORMATS}.acme:FORMAT",
        "pai": f"{_FORMATS}.pai:FORMAT",
        "openb": f"{_FORMATS}.openb:FORMAT",
        "symbioticlab": f"{_FORMATS}.symbioticlab:FORMAT",
        "sacct": f"{_FORMATS}.sacct_table:FORMAT",
        "sacct-json": f"{_FORMATS}.sacct_json:FORMAT",
        "csv": f"{_FORMATS}.own:FORMAT",
    },
    f"{_FORMATS}.plugin_format:accepted",
)
