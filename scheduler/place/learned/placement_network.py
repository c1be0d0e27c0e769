"""The network that scores placements (marl-placement section IV): two graphs, and the actor and the critic of a partition.

1. Server graph: servers and switches inside the partitions. Each layer joins the features of a node with the edge-conditioned
   convolution over its neighbours, and a linear layer follows.
2. The mean and the maximum over the servers of a partition, with the task, become the features of the partition.
3. Partition graph: partitions and the switches above them, in layers of the same kind.
4. The agent of a partition scores each of its servers, and each other partition to which it may forward the task. The critic
   estimates the return.

Features of all layers are joined for what follows (dense connections). All agents use the same parameters and differ in what they
observe, so the size of the network does not depend on the cluster. With `partition_layers` 0 there is no partition graph: one agent
for the whole cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiresias.scheduler.place.learned.edge_convolution import (
    Array,
    ArrayOperations,
    Edges,
    NumpyOperations,
    edge_convolution,
)

EDGE_FEATURES = ("bandwidth", "load", "tier")
LAYERS_AT_MOST, WIDTH_AT_MOST = 8, 1024

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class NetworkSizes:
    """The sizes of the network.

    Attributes:
        server_features: Features of a server.
        choice_features: Further features of a server for the task that is placed.
        reach_features: The same of a partition.
        task_features: Features of the task.
        width: Features of a node in each layer.
        server_layers, partition_layers: Layers of the two graphs.
        hidden: Neurons of the hidden layer of actor and critic.

    Raises:
        ValueError: A size is not possible.
    """

    server_features: int
    choice_features: int
    reach_features: int
    task_features: int
    width: int = 16
    server_layers: int = 2
    partition_layers: int = 2
    hidden: int = 64

    def __post_init__(self) -> None:
        inputs = (self.server_features, self.choice_features, self.reach_features, self.task_features)
        widths = (*inputs, self.width, self.hidden)
        if not all(1 <= each <= WIDTH_AT_MOST for each in widths):
            raise ValueError(f"a layer has 1 to {WIDTH_AT_MOST} features")
        if not (1 <= self.server_layers <= LAYERS_AT_MOST and 0 <= self.partition_layers <= LAYERS_AT_MOST):
            raise ValueError(f"a graph has 1 to {LAYERS_AT_MOST} layers; the partition graph may have none")

    @property
    def server_embedding(self) -> int:
        """Features of a server in all layers together."""
        return self.server_features + self.width * self.server_layers

    @property
    def partition_embedding(self) -> int:
        """Features of a partition in all layers together."""
        return self.width * (1 + self.partition_layers)

    def shapes(self) -> Shapes:
        """Return the shape of each parameter by its name."""
        observed = 2 * self.server_embedding + self.task_features
        own = self.partition_embedding + self.task_features
        found = {"encoder.weight": (observed, self.width), "encoder.bias": (self.width,)}
        for layer in range(self.server_layers):
            found |= _layer(f"server.{layer}", self.server_features if layer == 0 else self.width, self.width)
        for layer in range(self.partition_layers):
            found |= _layer(f"partition.{layer}", self.width, self.width)
        found |= _head("actor", self.server_embedding + self.choice_features + own, self.hidden)
        found |= _head("forward", self.partition_embedding + self.reach_features + own, self.hidden)
        return found | _head("critic", self.partition_embedding + own, self.hidden)


def _layer(name: str, inputs: int, width: int) -> Shapes:
    return {
        f"{name}.filters": ((len(EDGE_FEATURES) + 1) * inputs, width),
        f"{name}.filter_bias": (width,),
        f"{name}.weight": (inputs + width, width),
        f"{name}.bias": (width,),
    }


def _head(name: str, inputs: int, hidden: int) -> Shapes:
    return {f"{name}.weight": (inputs, hidden), f"{name}.bias": (hidden,), f"{name}.out": (hidden, 1)}


class PlacementNetwork:
    """The network over the arrays of one library. Axes before the named ones are batches."""

    def __init__(
        self, sizes: NetworkSizes, parameters: Mapping[str, Array], operations: ArrayOperations | None = None
    ) -> None:
        """parameters: as `NetworkSizes.shapes` names them. operations: of the array library; None: numpy."""
        self.sizes, self._parameters = sizes, parameters
        self._operations: ArrayOperations = operations or NumpyOperations()

    def embed_servers(self, graph: Edges, weights: tuple[Array, ...], features: Array) -> Array:
        """Return the features of the nodes of the server graph in all layers, shape (nodes, server_embedding).

        Args:
            graph: Servers and switches.
            weights: Of the features of its edges (`Edges.weights`).
            features: Of the nodes, shape (nodes, server_features).
        """
        return self._embed("server", self.sizes.server_layers, graph, weights, features)

    def pooled(self, servers: Array, present: Array) -> Array:
        """Return the mean and the maximum over the servers of each partition, shape (partitions, 2 * server_embedding).

        Args:
            servers: Embedded, shape (partitions, servers, server_embedding).
            present: 1 for servers, 0 where a partition has fewer; shape (partitions, servers, 1).
        """
        mean = (present.swapaxes(-1, -2) @ servers)[..., 0, :] / present.sum(-2)
        return self._operations.join([mean, self._operations.largest(servers, present)])

    def embed_partitions(
        self, graph: Edges, weights: tuple[Array, ...], pooled: Array, task: Array, switches: Array
    ) -> Array:
        """Return the features of the partitions in all layers, shape (partitions, partition_embedding).

        Args:
            graph: Partitions, then switches.
            weights: As for `embed_servers`.
            pooled: Of `pooled`.
            task: Features of the task, shape (1, task_features).
            switches: Zeros, shape (switches, width).
        """
        encoded = self._operations.relu(self._linear("encoder", pooled, task))
        if not self.sizes.partition_layers:
            return encoded
        partitions = encoded.shape[-2]
        nodes = self._operations.join([encoded, switches], axis=-2)
        embedded = self._embed("partition", self.sizes.partition_layers, graph, weights, nodes)
        return embedded[..., :partitions, :]

    def server_scores(self, servers: Array, choice: Array, own: Array, task: Array) -> Array:
        """Return the logit of each server of a partition, shape (servers,).

        Args:
            servers: Embedded servers of the partition, shape (servers, server_embedding).
            choice: Their further features, shape (servers, choice_features).
            own: The embedded partition, shape (1, partition_embedding).
            task: Shape (1, task_features).
        """
        return self._head("actor", servers, choice, own, task)

    def forward_scores(self, partitions: Array, reach: Array, own: Array, task: Array) -> Array:
        """Return the logit of each partition for forwarding, shape (partitions,).

        Args:
            partitions: Embedded, shape (partitions, partition_embedding).
            reach: Their further features, shape (partitions, reach_features).
            own: As for `server_scores`.
            task: As for `server_scores`.
        """
        return self._head("forward", partitions, reach, own, task)

    def value(self, partitions: Array, own: Array, task: Array) -> Array:
        """Return the critic's estimate of the return, shape (1,). partitions: all, embedded."""
        return self._head("critic", partitions.mean(-2)[..., None, :], own, task)

    def _embed(self, name: str, layers: int, graph: Edges, weights: tuple[Array, ...], features: Array) -> Array:
        found = [features]
        for layer in range(layers):
            at, inputs = f"{name}.{layer}", found[-1]
            filters, bias = self._parameters[f"{at}.filters"], self._parameters[f"{at}.filter_bias"]
            received = edge_convolution(self._operations, graph, weights, inputs, filters, bias)
            found.append(self._operations.relu(self._linear(at, inputs, received)))
        return self._operations.join(found)

    def _linear(self, name: str, *parts: Array) -> Array:
        """Return a linear layer over the joined features of the parts; one with a single row counts for all rows of the others.
        They are multiplied one by one, so that a single row is multiplied once."""
        weight, at = self._parameters[f"{name}.weight"], 0
        found = self._parameters[f"{name}.bias"]
        for part in parts[::-1]:  # the small ones first
            at += part.shape[-1]
            found = part @ weight[len(weight) - at : len(weight) - at + part.shape[-1]] + found
        return found

    def _head(self, name: str, *parts: Array) -> Array:
        """Return one hidden layer and a linear output over the joined features of the parts, shape (rows,)."""
        return (self._operations.relu(self._linear(name, *parts)) @ self._parameters[f"{name}.out"])[..., 0]
