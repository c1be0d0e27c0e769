"""The reader of HiveD's configuration: physicalCluster and virtualClusters of a YAML or JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tiresias.errors import UsageError
from tiresias.scheduler.virtual_clusters.specification import (
    CellSpecification,
    CellType,
    DeclaredCell,
    DeclaredVirtualCluster,
    OwnedCells,
)

MOST_BYTES = 64 << 20


def read_hived_config(file: Path) -> CellSpecification:
    """Read a file. Raises UsageError if it is no such configuration, or is YAML and PyYAML is not installed."""
    try:
        if file.stat().st_size > MOST_BYTES:
            raise UsageError(f"{file}: larger than {MOST_BYTES >> 20} MiB")
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from None
    try:
        return specification(_parsed(text, file))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{file}: no configuration of HiveD: {type(error).__name__} {error}") from None


def _parsed(text: str, file: Path) -> Any:
    if file.suffix == ".json":
        return json.loads(text)
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise UsageError(f"{file}: PyYAML is not installed; install it, or give the configuration as JSON") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{file}: invalid YAML: {' '.join(str(error).split())}") from None


def specification(config: Mapping[str, Any]) -> CellSpecification:
    """Return the specification of a parsed configuration."""
    physical = config["physicalCluster"]
    return CellSpecification(
        {name: _cell_type(value) for name, value in physical["cellTypes"].items()},
        tuple(_cell(value) for value in physical["physicalCells"]),
        {str(name): _virtual_cluster(value) for name, value in config["virtualClusters"].items()},
    )


def _cell_type(value: Mapping[str, Any]) -> CellType:
    return CellType(str(value["childCellType"]), int(value["childCellNumber"]), bool(value.get("isNodeLevel", False)))


def _cell(value: Mapping[str, Any]) -> DeclaredCell:
    return DeclaredCell(
        _text(value.get("cellType")),
        _text(value.get("cellAddress")),
        _text(value.get("pinnedCellId")),
        tuple(map(_cell, value.get("cellChildren") or ())),
    )


def _virtual_cluster(value: Mapping[str, Any]) -> DeclaredVirtualCluster:
    cells: Sequence[Mapping[str, Any]] = value.get("virtualCells") or ()
    pinned: Sequence[Mapping[str, Any]] = value.get("pinnedCells") or ()
    owned = tuple(OwnedCells(str(each["cellType"]), int(each["cellNumber"])) for each in cells)
    return DeclaredVirtualCluster(
        tuple(each for each in owned if each.count), tuple(_text(each["pinnedCellId"]) for each in pinned)
    )


def _text(value: object) -> str:
    return "" if value is None else str(value)
