"""Reads and checks the whole configuration, or one option alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiresias.errors import UsageError
from tiresias.scheduler.stages import TENANT_RULES
from tiresias.slurm_plugin.config.options import Option, declared, options
from tiresias.slurm_plugin.config.sections import SECTIONS, Config
from tiresias.slurm_plugin.config.sources import (
    PARTITION_POLICIES,
    from_command_line,
    from_environment,
    from_files,
    hint,
    refuse_mistyped,
)
from tiresias.slurm_plugin.config.values import RawValue, convert, quoted_name
from tiresias.slurm_plugin.config.virtual_cluster_tables import VIRTUAL_CLUSTERS, VirtualClusterConfig, virtual_clusters

if TYPE_CHECKING:
    from tiresias.scheduler.config import PolicyConfig

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checked configuration, and for each key where its value comes from."""

    config: Config
    sources: dict[str, str]

    def value(self, key: str) -> Any:
        """Return the value of a dotted key."""
        section, _, name = key.rpartition(".")
        if key == VIRTUAL_CLUSTERS:
            return self.config.virtual_clusters
        if section.startswith(PARTITION_POLICIES):
            return getattr(self.config.policy_of(section.removeprefix(PARTITION_POLICIES)), name)
        return getattr(getattr(self.config, section) if section else self.config, name)


def load_config(file: Path | None, overrides: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> Config:
    """Return the checked configuration; see `load`."""
    return load(file, overrides, environ).config


def load(file: Path | None, overrides: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> Loaded:
    """Read and check the configuration.

    Args:
        file: None: the default file where it exists.
        overrides: Values of the command line by dotted key; None is not given.
        environ: The environment variables.

    Raises:
        UsageError: A key is unknown, or a value is not allowed.
    """
    known = options()
    found = from_files(file) | from_environment(known, environ) | from_command_line(overrides)
    tables = found.pop(VIRTUAL_CLUSTERS, None)
    known |= {key: option for key in found if (option := _of_partition(key, known))}
    for key, raw in found.items():
        if key not in known:
            raise UsageError(
                f"{raw.source}: unknown key {quoted_name(key)}{hint(key, [*known, *filter(None, SECTIONS)])}"
            )
    refuse_mistyped(environ, [option.variable for option in known.values()])
    values = {key: convert(known[key], raw) for key, raw in found.items()}
    parts = {section: owner()(**_section(values, section)) for section, owner in SECTIONS.items() if section}
    policies = _partition_policies(values, parts["policy"])
    config = Config(**_section(values, ""), **parts, partition_policies=policies)
    if unmanaged := [name for name, _ in policies if name not in config.partitions]:
        key = f"{PARTITION_POLICIES}{unmanaged[0]}"
        raise UsageError(f"{_source(found, key)}: {key}: partition {unmanaged[0]} is not managed (partitions)")
    _check_part_types(config, found)
    config = replace(config, virtual_clusters=_virtual_clusters(tables, config))
    _check_assist(config)
    sources = {key: found[key].source if key in found else DEFAULT for key in known}
    return Loaded(config, sources | ({VIRTUAL_CLUSTERS: tables.source} if tables else {}))


def _check_part_types(config: Config, found: Mapping[str, RawValue]) -> None:
    """Raises UsageError where there are types of parts, and no level that has parts."""
    if config.placement.part_types and not config.placement.islands:
        source = found["placement.part_types"].source
        raise UsageError(f"{source}: placement.part_types: no level has its parts; name one in placement.islands")


def _check_assist(config: Config) -> None:
    """Raises UsageError where mode assist leaves something to Slurm that the configuration has the controller do."""
    if not config.assists:
        return
    policies = (config.policy, *(policy for _, policy in config.partition_policies))
    wrong = {
        f"{VIRTUAL_CLUSTERS} tables": bool(config.virtual_clusters),
        "policy.admission": any(policy.admission != "shared" for policy in policies),
        "policy.sizing": any(policy.sizing != "fixed" for policy in policies),
        'placement.stragglers = "replace"': config.placement.stragglers == "replace",
    }
    if found := next((name for name, is_wrong in wrong.items() if is_wrong), ""):
        raise UsageError(
            f'{found}: not in mode assist, in which Slurm starts the jobs; use mode = "exact", or remove it'
        )


def _virtual_clusters(tables: RawValue | None, config: Config) -> tuple[VirtualClusterConfig, ...]:
    """Raises UsageError where a table is not possible, or partitions have policies of their own as well."""
    for name, policy in config.partition_policies:
        if {policy.admission, config.policy.admission} & TENANT_RULES.keys():
            key = f"{PARTITION_POLICIES}{name}"
            raise UsageError(
                f"{key}: with virtual clusters a partition has no policy of its own; give it to a virtual cluster"
            )
    return virtual_clusters(tables, config.policy)


def _of_partition(key: str, known: Mapping[str, Option]) -> Option | None:
    """Return the option of [policy] that a key such as policy.partitions.debug.min_run sets for one partition."""
    section, _, name = key.rpartition(".")
    option = known.get(f"policy.{name}") if section.startswith(PARTITION_POLICIES) else None
    return option and replace(option, section=section)


def _partition_policies(values: Mapping[str, Any], base: PolicyConfig) -> tuple[tuple[str, PolicyConfig], ...]:
    changes: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        if section.startswith(PARTITION_POLICIES):
            changes.setdefault(section.removeprefix(PARTITION_POLICIES), {})[name] = value
    return tuple((name, replace(base, **changes[name])) for name in sorted(changes))


def _source(found: Mapping[str, RawValue], section: str) -> str:
    return next(raw.source for key, raw in found.items() if key.startswith(f"{section}."))


def load_option(key: str, file: Path | None, environ: Mapping[str, str] = os.environ) -> Any:
    """Return one option. Mistakes in others are ignored, so that views work while the file has one."""
    option = next(option for option in declared(key.rpartition(".")[0]) if option.key == key)
    found = from_files(file) | from_environment({key: option}, environ)
    return convert(option, found[key]) if key in found else option.default


def _section(values: Mapping[str, Any], section: str) -> dict[str, Any]:
    return {option.name: values[option.key] for option in declared(section) if option.key in values}
