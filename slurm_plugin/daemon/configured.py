"""The configuration of a running controller together with the facts on Slurm that it depends on, and its replacement on reload.

A new configuration is checked as a whole before anything changes, by the rules of `tiresias check-config` and against slurm.conf.
It is refused, and the old one stays in force, if it changes an option that is fixed while the controller runs.
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError, UsageError
from tiresias.scheduler.host_lists import hosts
from tiresias.scheduler.plugin import PluginError
from tiresias.slurm_plugin.cluster.partition_pools import check_plugins, conflict
from tiresias.slurm_plugin.cluster.site import Site, read_site
from tiresias.slurm_plugin.config import Config, Loaded, load, load_option
from tiresias.slurm_plugin.config.for_release import load_for_release

# Prefixes of keys: the connection to Slurm, open files and sockets, paths in the environment of running jobs.
FIXED = ("backend", "paths.")

log = logging.getLogger("tiresias")


@dataclass(frozen=True, slots=True)
class Configured:
    """A checked configuration and the site that it was checked against; `file` and `overrides` as for `load`."""

    file: Path | None
    overrides: Mapping[str, object]
    loaded: Loaded
    site: Site

    @property
    def config(self) -> Config:
        """The configuration."""
        return self.loaded.config

    @classmethod
    def read(cls, file: Path | None, overrides: Mapping[str, object], acts: bool = True) -> Configured:
        """Read and check the configuration.

        Args:
            file: As for `load`.
            overrides: As for `load`.
            acts: Whether the controller will hold and start jobs. Only to lift holds, mistakes are tolerated.

        Raises:
            TiresiasError: The configuration has a mistake, or does not fit Slurm's.
        """
        loaded = load(file, overrides) if acts else load_for_release(file, overrides)
        loaded = _with_usable_plugins(loaded, acts)
        return cls(file, overrides, loaded, _checked_site(loaded.config, acts))

    def moves_its_state(self) -> bool:
        """Return whether the next controller will use another state folder, which does not record the present holds."""
        with suppress(UsageError):
            return bool(load_option("paths.state", self.file) != self.config.paths.state)
        return False

    def again(self) -> tuple[Configured, list[str]]:
        """Read the configuration again; return it and its changes, one line each. Raises TiresiasError where it is refused."""
        new = Configured.read(self.file, self.overrides)
        keys = dict.fromkeys([*new.loaded.sources, *self.loaded.sources])
        changed = [key for key in keys if new.loaded.value(key) != self.loaded.value(key)]
        changes = [f"{key}: {_shown(self.loaded.value(key))} -> {_shown(new.loaded.value(key))}" for key in changed]
        if fixed := [line for key, line in zip(changed, changes, strict=True) if key.startswith(FIXED)]:
            raise UsageError(f"{fixed[0]}: this cannot change while the controller runs; restart it, or change it back")
        if new.site.cluster != self.site.cluster:
            raise UsageError(
                f"slurm.conf: ClusterName is {new.site.cluster}, was {self.site.cluster}: restart the controller"
            )
        return new, changes


def _with_usable_plugins(loaded: Loaded, acts: bool) -> Loaded:
    """Raises PluginError where an implementation of an installed package cannot be used; holds are lifted without it."""
    try:
        check_plugins(loaded.config)
    except PluginError as error:
        if acts:
            raise
        log.warning("%s; the holds are lifted with the default policy", error)
        usable = replace(loaded.config, policy=type(loaded.config.policy)(), partition_policies=())
        return replace(loaded, config=replace(usable, placement=replace(usable.placement, style="skew")))
    return loaded


def _checked_site(config: Config, acts: bool) -> Site:
    site = read_site()
    if acts and (unknown := set(config.partitions) - site.partitions):
        raise TiresiasError(
            f"partition {min(unknown)} is not in slurm.conf: set partitions to some of {', '.join(sorted(site.partitions))}"
        )
    if acts and (problem := conflict(config, _partitions_of_nodes(site))):
        raise UsageError(problem)
    if acts and config.acts and (problem := site.rights.why_powerless(os.geteuid())):
        raise TiresiasError(problem)
    for alarm in site.alarms:
        log.warning("%s", alarm)
    return site


def _partitions_of_nodes(site: Site) -> Iterable[tuple[str, Collection[str]]]:
    found = defaultdict(set)
    for partition, nodes in site.nodes.items():
        for node in hosts(nodes) if nodes != "(null)" else ():
            found[node].add(partition)
    return found.items()


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
