"""The recorded decisions of HiveD's own implementation, where they are present beside the checkout."""

from __future__ import annotations

import copy
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tiresias.scheduler.virtual_clusters.specification import CellSpecification
from tiresias.simulator.cell_replay.hived_config import read_hived_config, specification

FOLDER = Path(os.environ.get("TIRESIAS_TRACES", Path(__file__).parents[4] / "shared" / "data")) / "hived"

needs_data = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no recorded decisions of HiveD in {FOLDER}")


def sequences(name: str) -> Path:
    return FOLDER / name


@cache
def configuration(name: str) -> CellSpecification:
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    return read_hived_config(FOLDER / "configs" / name)


@cache
def suite() -> dict[str, Any]:
    return dict(json.loads((FOLDER / "upstream_suite.json").read_text()))


def design() -> dict[str, Any]:
    """The parsed configuration of the suite, to be edited."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return dict(copy.deepcopy(yaml.safe_load((FOLDER / "configs" / "design.yaml").read_text())))


def edited(edits: dict[str, Any]) -> CellSpecification:
    """The configuration of the suite with edits such as VC1.virtualCells[0].cellNumber: 0."""
    config = design()
    for path, value in edits.items():
        vc, cells, key = path.split(".")
        config["virtualClusters"][vc]["virtualCells"][int(cells.partition("[")[2].rstrip("]"))][key] = value
    return specification(config)
