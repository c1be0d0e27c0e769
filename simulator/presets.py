"""Presets: files that compose the stages as the systems of the papers do (`etc/presets`), for simulations and the controller alike.

A preset is a part of the controller's configuration: its tables [policy] and [placement], in conf.d as they are. A simulation uses
[policy], and of [placement] the keys style, packlimit and patience.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import tiresias
from tiresias.errors import UsageError
from tiresias.protocol import site_configuration
from tiresias.scheduler.config import PolicyConfig
from tiresias.simulator.simulated_placement import PACKLIMIT, STYLES, WAIT_LIMIT_S, SimulatedPlacement

_PLACEMENT = {"style": str, "packlimit": float, "patience": float}


@dataclass(frozen=True, slots=True)
class Preset:
    """The stages of a file.

    Attributes:
        config: The policy and its options; what the file does not name has the controller's default.
        placement: The placement; None: all GPUs are equal.
    """

    config: PolicyConfig
    placement: SimulatedPlacement | None


def folder() -> Path:
    """Return the folder of the installed presets, or of those of the checkout."""
    package = Path(tiresias.__file__).resolve().parent
    installed = package / "share/etc/presets"
    return installed if installed.is_dir() else package.parents[1] / "etc/presets"


def names() -> tuple[str, ...]:
    """Return the names of the presets."""
    return tuple(sorted(file.stem for file in folder().glob("*.toml")))


def preset(name: str) -> Preset:
    """Return the preset of a name, or of a file whose name ends in .toml.

    Raises:
        UsageError: There is none, or a key or a value in it is not possible.
    """
    file = Path(name) if name.endswith(".toml") else folder() / f"{name}.toml"
    if not name.endswith(".toml") and name not in names():
        raise UsageError(f"--preset {name[:40]!r}: no such preset; there are {', '.join(names())}, and files NAME.toml")
    return _of(file, _read(file))


def _read(file: Path) -> Mapping[str, Any]:
    try:
        return site_configuration.parse(file)
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None
    except (ImportError, ValueError, RecursionError) as error:
        raise UsageError(f"{file}: is not TOML: {error}") from None


def _of(file: Path, tables: Mapping[str, Any]) -> Preset:
    if unknown := sorted(tables.keys() - {"policy", "placement"}):
        raise UsageError(f"{file}: {unknown[0][:40]}: a preset has the tables policy and placement alone; remove it")
    policy = _table(file, tables, "policy", [each.name for each in fields(PolicyConfig)])
    placement = _table(file, tables, "placement", [*_PLACEMENT])
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in policy.items()}
    try:
        config = PolicyConfig(**values)
    except UsageError as error:
        raise UsageError(f"{file}: policy.{error}") from None
    return Preset(config, _placement(file, placement))


def _table(file: Path, tables: Mapping[str, Any], name: str, keys: list[str]) -> dict[str, Any]:
    table = tables.get(name, {})
    if not isinstance(table, dict):
        raise UsageError(f"{file}: {name} is not a table; write [{name}]")
    if unknown := sorted(table.keys() - {*keys}):
        raise UsageError(f"{file}: unknown key {name}.{unknown[0][:40]}; there are {', '.join(keys)}")
    return table


def _placement(file: Path, table: Mapping[str, Any]) -> SimulatedPlacement | None:
    for key, value in table.items():
        allowed = (int, float) if _PLACEMENT[key] is float else (str,)
        if not isinstance(value, allowed) or isinstance(value, bool):
            raise UsageError(f"{file}: placement.{key} = {value!r} is not possible; give a {_PLACEMENT[key].__name__}")
    style = table.get("style")
    if style is None:
        return None
    if style not in STYLES:
        raise UsageError(f"{file}: placement.style = {style[:40]!r} is not possible; there are {', '.join(STYLES)}")
    return SimulatedPlacement.named(style, table.get("packlimit", PACKLIMIT), table.get("patience", WAIT_LIMIT_S))
