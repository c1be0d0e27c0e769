"""The file of a trained network: a zip of arrays in numpy's format, as `numpy.savez` writes it, and a description in JSON.

Nothing of it is executed, nothing is unpickled or decompressed, and no array is larger than the file. A file that cannot be used is
refused with one line.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tiresias.errors import UsageError
from tiresias.scheduler.place.learned.array_zip import (
    SIZE_AT_MOST,
    RefusedFile,
    array_of,
    shown,
    unzipped,
    zipped,
)
from tiresias.scheduler.place.learned.cluster_graph import WHOLE, ClusterGraph, graphs_of
from tiresias.scheduler.place.learned.edge_convolution import Array
from tiresias.scheduler.place.learned.placement_agents import GPU, TASKS
from tiresias.scheduler.place.learned.placement_network import EDGE_FEATURES, NetworkSizes, PlacementNetwork
from tiresias.scheduler.place.learned.task_observation import FEATURES
from tiresias.scheduler.topology_tree import Topology

SCHEMA = 2


class WeightsError(UsageError):
    """A file of weights that cannot be used: one line that names the file and the reason."""


@dataclass(frozen=True, eq=False)
class PlacementWeights:
    """A trained network and what it was trained for.

    Attributes:
        sizes: Of the network.
        parameters: Arrays of float32 by name, with the shapes of `sizes`.
        features: Names of the features by what they describe: server, choice, reach and task, each in order.
        level: The level of the topology of which each group is a partition.
        bandwidths: Gb/s of the links of each tier, from servers up.
        fingerprint: Of the topology (`ClusterGraph.fingerprint`).
        training: How it was trained: trace, seed, epochs and others; only shown.
        tasks: What its agents place at once, one of `placement_agents.TASKS`.
    """

    sizes: NetworkSizes
    parameters: Mapping[str, Array]
    features: Mapping[str, tuple[str, ...]]
    level: str
    bandwidths: tuple[float, ...]
    fingerprint: str
    training: Mapping[str, Any]
    tasks: str = GPU

    def network(self) -> PlacementNetwork:
        """Return the network for inference in numpy."""
        return PlacementNetwork(self.sizes, self.parameters)

    def graphs(self, topology: Topology) -> ClusterGraph:
        """Return the graphs of a topology. Raises ValueError where it lacks the level."""
        return graphs_of(topology, self.level, self.bandwidths)

    def has_partitions(self, topology: Topology) -> bool:
        """Return whether the nodes have groups of the level, or need none."""
        return self.level in (*topology.group_names, WHOLE)

    def check(self, topology: Topology, name: str) -> None:
        """Check that the weights were trained for these features and this topology.

        Args:
            topology: Of the whole cluster.
            name: Of the file, for errors.

        Raises:
            WeightsError: They were not.
        """
        if self.features != FEATURES:
            differing = next(each for each in FEATURES if self.features.get(each) != FEATURES[each])
            raise WeightsError(f"weights {name}: trained with other {differing} features; train them with this version")
        try:
            found = self.graphs(topology).fingerprint
        except ValueError as error:
            raise WeightsError(
                f"weights {name}: trained for another topology: {error}; train them for this one"
            ) from None
        if found != self.fingerprint:
            raise WeightsError(
                f"weights {name}: trained for another topology ({self.fingerprint[:12]}, this one has {found[:12]}); train them "
                "for this one"
            )


def written(weights: PlacementWeights) -> bytes:
    """Return the content of a file. The same weights give the same bytes."""
    return zipped(_described(weights), weights.parameters)


def load(file: Path) -> PlacementWeights:
    """Return the weights of a file. Raises WeightsError where it cannot be read or used."""
    try:
        with file.open("rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise WeightsError(f"weights {file}: no regular file; name a file of weights")
            return read(opened.read(SIZE_AT_MOST + 1), str(file))
    except OSError as error:
        raise WeightsError(f"weights {file}: {error.strerror or error}; name a file that can be read") from None


def read(content: bytes, name: str) -> PlacementWeights:
    """Return the weights of a file.

    Args:
        content: Of the file.
        name: Of the file, for errors.

    Raises:
        WeightsError: It cannot be used.
    """
    try:
        return _weights(*unzipped(content, SCHEMA))
    except RefusedFile as error:
        raise WeightsError(f"weights {name}: {error}; train them again, or name another file") from None


def _described(weights: PlacementWeights) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "sizes": asdict(weights.sizes),
        "features": {name: [*names] for name, names in weights.features.items()},
        "edge_features": [*EDGE_FEATURES],
        "level": weights.level,
        "bandwidths": [*weights.bandwidths],
        "topology": weights.fingerprint,
        "training": dict(weights.training),
        "tasks": weights.tasks,
    }


def _weights(described: dict[str, Any], members: dict[str, bytes]) -> PlacementWeights:
    if described.get("edge_features") != [*EDGE_FEATURES]:
        raise RefusedFile(f"the features of its edges are {shown(described.get('edge_features'))}")
    sizes = _sizes(described.get("sizes"))
    return PlacementWeights(
        sizes, _parameters(members, sizes), _features(described.get("features"), sizes), _text(described, "level"),
        _bandwidths(described.get("bandwidths")), _text(described, "topology"), _training(described.get("training")),
        _tasks(described.get("tasks")),
    )  # fmt: skip


def _sizes(value: object) -> NetworkSizes:
    names = NetworkSizes.__dataclass_fields__.keys()
    if not isinstance(value, dict) or value.keys() != names or not all(type(each) is int for each in value.values()):
        raise RefusedFile("it states no sizes of the network")
    try:
        return NetworkSizes(**value)
    except ValueError as error:
        raise RefusedFile(f"its sizes are not possible: {error}") from None


def _features(value: object, sizes: NetworkSizes) -> dict[str, tuple[str, ...]]:
    counts = {name: getattr(sizes, f"{name}_features") for name in ("server", "choice", "reach", "task")}
    if not isinstance(value, dict) or value.keys() != counts.keys():
        raise RefusedFile("it does not name its features")
    for name, names in value.items():
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise RefusedFile(f"its {name} features are no names")
        if len(names) != counts[name]:
            raise RefusedFile(f"it names {len(names)} {name} features, and its sizes have {counts[name]}")
    return {name: tuple(names) for name, names in value.items()}


def _text(described: Mapping[str, Any], key: str) -> str:
    value = described.get(key)
    if not isinstance(value, str):
        raise RefusedFile(f"its {key} is no text")
    return value


def _bandwidths(value: object) -> tuple[float, ...]:
    if not isinstance(value, list) or not value or not all(type(each) in (int, float) for each in value):
        raise RefusedFile("its bandwidths are no numbers")
    if not all(0 < each < 1e6 for each in value):
        raise RefusedFile("its bandwidths are not between 0 and 1,000,000 Gb/s")
    return tuple(map(float, value))


def _training(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RefusedFile("it does not state how it was trained")
    return value


def _tasks(value: object) -> str:
    if value not in TASKS:
        raise RefusedFile(f"its tasks are {shown(value)}, and can be {' or '.join(TASKS)}")
    return str(value)


def _parameters(members: Mapping[str, bytes], sizes: NetworkSizes) -> dict[str, Array]:
    shapes = sizes.shapes()
    if members.keys() != {f"{name}.npy" for name in shapes}:
        raise RefusedFile("it has other arrays than the network of its sizes")
    return {name: array_of(members[f"{name}.npy"], name, shape) for name, shape in shapes.items()}
