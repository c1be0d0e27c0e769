"""Edge-conditioned convolution (Simonovsky and Komodakis, CVPR '17; marl-placement section IV-A) on any array library.

A feature vector of an edge becomes, by one linear layer, the matrix that the features of the neighbour are multiplied with. The
layer is linear, so the sum over the neighbours is taken before the product: no matrix is made for each edge. In a small graph the
sums are one product with a dense matrix; in a large one, nodes with the same number of neighbours are computed together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tiresias.scheduler.model import Ints

Array = Any  # of numpy or of torch; float32
DENSE_AT_MOST = 128  # nodes of a graph


class ArrayOperations(Protocol):
    """What the network needs of an array library besides arithmetic, matrix products and indexing. Rows are the axis before the
    last; axes before it are batches."""

    def relu(self, values: Array) -> Array:
        """Return the values, 0 for negative ones."""

    def join(self, parts: list[Array], axis: int = -1) -> Array:
        """Return arrays that differ in one axis only as one."""

    def largest(self, values: Array, present: Array) -> Array:
        """Return the maximum over the rows that are present. present: 1 or 0, shape (rows, 1)."""


class NumpyOperations:
    """The operations in numpy."""

    def relu(self, values: Array) -> Array:
        """Return the values, 0 for negative ones."""
        return np.maximum(values, 0)

    def join(self, parts: list[Array], axis: int = -1) -> Array:
        """Return arrays that differ in one axis only as one."""
        return np.concatenate(parts, axis=axis)

    def largest(self, values: Array, present: Array) -> Array:
        """Return the maximum over the rows that are present."""
        return np.where(present > 0, values, -np.inf).max(axis=-2)


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """The edges to the nodes of a graph that have the same number of neighbours, shape (nodes, neighbours) each.

    Attributes:
        edge: Index of each edge.
        source: Node that it comes from.
    """

    edge: Ints
    source: Ints


class Edges:
    """The directed edges of a graph.

    Attributes:
        nodes: The number of nodes.
        is_dense: The sums over neighbours are computed by a dense matrix.
        groups: The nodes with neighbours, by their number of neighbours.
        isolated: The number of nodes without neighbours.
        order: The position of each node in the groups, then the nodes without neighbours; shape (nodes,).
    """

    def __init__(self, nodes: int, source: Ints, target: Ints, is_dense: bool | None = None) -> None:
        """source, target: the nodes of each edge, shape (edges,). is_dense: None: by the number of nodes."""
        self.nodes, self._source, self._target = nodes, source, target
        self.is_dense = nodes <= DENSE_AT_MOST if is_dense is None else is_dense
        by_target = np.argsort(target, kind="stable")
        self._degree = np.bincount(target, minlength=nodes)
        first = np.cumsum(self._degree) - self._degree
        groups, members = [], []
        for count in np.unique(self._degree[self._degree > 0]).tolist():
            members.append(np.flatnonzero(self._degree == count))
            edge = by_target[first[members[-1]][:, None] + np.arange(count)]
            groups.append(Neighbours(edge, source[edge]))
        members.append(np.flatnonzero(self._degree == 0))
        self.groups, self.isolated = tuple(groups), len(members[-1])
        self.order = np.argsort(np.concatenate(members))

    def weights(self, edges: Array) -> tuple[Array, ...]:
        """Return by what `edge_convolution` multiplies the features of the nodes: numpy arrays, which no parameter changes.

        Args:
            edges: Features of each edge, the last of which is 1 (the bias of the linear layer), shape (..., edges, k).
        """
        if not self.is_dense:
            return tuple(edges[..., each.edge, :].swapaxes(-1, -2) / each.edge.shape[1] for each in self.groups)
        features = edges.shape[-1]
        found = np.zeros((*edges.shape[:-2], self.nodes, features, self.nodes), np.float32)
        share = edges / self._degree[self._target][:, None]
        by_edge, added = (
            np.moveaxis(found, (-3, -1), (0, 1)),
            np.moveaxis(share, -2, 0),
        )  # views; two edges may have equal ends
        np.add.at(by_edge, (self._target, self._source), added)
        return (found.reshape(*edges.shape[:-2], self.nodes * features, self.nodes),)


def edge_convolution(
    operations: ArrayOperations, graph: Edges, weights: tuple[Array, ...], features: Array, filters: Array, bias: Array
) -> Array:
    """Return the mean over the neighbours of the product of their features with the matrix of the edge; shape (..., nodes, out).

    A node without neighbours has the bias alone.

    Args:
        operations: Of the array library.
        graph: The edges.
        weights: Of `Edges.weights`, for edges with k features.
        features: Of each node, shape (..., nodes, in).
        filters: The linear layer, shape (k * in, out): row i * in + j belongs to edge feature i and node feature j.
        bias: Shape (out,).
    """
    if graph.is_dense:
        received = weights[0] @ features
        return received.reshape(*received.shape[:-2], graph.nodes, filters.shape[0]) @ filters + bias
    parts = [_sums(each, features[..., group.source, :]) for each, group in zip(weights, graph.groups, strict=True)]
    if graph.isolated:
        inputs = filters.shape[0] // features.shape[-1]
        parts.append(operations.join([features[..., : graph.isolated, :] * 0] * inputs))
    return operations.join(parts, axis=-2)[..., graph.order, :] @ filters + bias


def _sums(weights: Array, sources: Array) -> Array:
    """Return the sums over the neighbours, shape (..., nodes, k * in).

    Args:
        weights: Shape (..., nodes, k, neighbours).
        sources: Features of the neighbours, shape (..., nodes, neighbours, in).
    """
    one = sources.shape[-2] == 1  # then the product of matrices is an outer product
    found = weights * sources if one else weights @ sources
    return found.reshape(*found.shape[:-2], -1)
