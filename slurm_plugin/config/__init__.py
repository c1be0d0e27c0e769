"""The controller's configuration: every option is declared once, here or in PolicyConfig, and checked when it is read.

    flags  >  TIRESIAS_* environment  >  conf.d/*.toml beside the file, last name first  >  the file  >  the declared default

The key `policy.thresholds` is `thresholds` under `[policy]` in a file and TIRESIAS_POLICY_THRESHOLDS in the environment, where
the elements of a list are separated by commas. `[policy.partitions.NAME]` has the keys of `[policy]` for one partition; those that
are not there are as in `[policy]`. A mistake is a UsageError in one line: where, which key, what is allowed.
"""

from __future__ import annotations

from tiresias.slurm_plugin.config.loading import DEFAULT, Loaded, load, load_config, load_option
from tiresias.slurm_plugin.config.options import Option, options
from tiresias.slurm_plugin.config.sections import (
    Comment,
    Config,
    Exempt,
    Paths,
    Placement,
    PreemptionConfig,
    Rpc,
    State,
)
from tiresias.slurm_plugin.config.sources import PARTITION_POLICIES
from tiresias.slurm_plugin.config.virtual_cluster_tables import VIRTUAL_CLUSTERS, VirtualClusterConfig

__all__ = [
    "DEFAULT", "PARTITION_POLICIES", "VIRTUAL_CLUSTERS", "Comment", "Config", "Exempt", "Loaded", "Option", "Paths", "Placement",
    "PreemptionConfig", "Rpc",
    "State", "VirtualClusterConfig", "load", "load_config", "load_option", "options",
]  # fmt: skip
