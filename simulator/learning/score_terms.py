"""The scores with which a training begins: a sum of a few terms, written into the heads of the network. Pure.

Each term is a cost, made of hidden neurons of the actor and of the head that forwards, with one coefficient for both, so that their
costs can be compared. `STARTS` has the coefficients from which a training begins. Which of them is better depends on the cluster:
estimated costs avoid links in use, and the tightest servers leave few servers in pieces, so that fewer jobs are split later.
What is learned corrects the scores (Silver et al., Residual policy learning, 2018).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.place.learned.edge_convolution import Array
from tiresias.scheduler.place.learned.placement_network import NetworkSizes
from tiresias.scheduler.place.learned.task_observation import ESTIMATED_COST, FEATURES, NODE_GPUS

_FAR = 16.0  # more than any number of GPUs or servers that the features have
SCORE_UNIT = 0.05  # cost by which scores differ by 1


class Neuron(NamedTuple):
    """A hidden neuron: factor * max(bias + sum of weights * features, 0)."""

    factor: float
    bias: float
    weights: dict[str, float]


def _value(feature: str, unit: float = 1.0) -> Neuron:
    return Neuron(unit, 0.0, {feature: 1.0})


def _at_most(most: float, bias: float, weights: dict[str, float], factor: float = 1.0) -> tuple[Neuron, Neuron]:
    """Return the neurons of a sum, from 0 to `most`."""
    return Neuron(factor, bias, weights), Neuron(-factor, bias - most, weights)


_SPLITS = {"left_over": -NODE_GPUS}  # GPUs that a server lacks
_USED = {"nodes_used": -NODE_GPUS * _FAR}  # 0 only for the first task of a job
_FIRST_SPLIT = _at_most(1.0, -_FAR, {"is_crossed": _FAR, **_SPLITS, **_USED}, -1.0)
_FIRST_WHOLE = (Neuron(1.0, 0.0, {"is_crossed": 1.0, **_USED}), *_FIRST_SPLIT)
_BEYOND = {"uncrossed_fewest_servers": NODE_GPUS, "fewest_servers": -NODE_GPUS}
_ON_ONE = {**_BEYOND, "fewest_servers": -NODE_GPUS * (1.0 + _FAR), **_USED}
_BY_TIGHTEST = {"uncrossed_tightest": NODE_GPUS, "tightest": -NODE_GPUS, **_USED}


class ScoreTerm(NamedTuple):
    """A term of the scores.

    Attributes:
        server: The neurons of a server.
        partition: Those of a partition to which a task may be forwarded.
    """

    server: tuple[Neuron, ...]
    partition: tuple[Neuron, ...]


TERMS = {
    "estimated_cost": ScoreTerm((_value(ESTIMATED_COST),), (_value(ESTIMATED_COST),)),
    "tightest": ScoreTerm(  # GPUs that stay free on the last server of the job
        (_value("left_over", NODE_GPUS), _value("partner_left_over", NODE_GPUS)),
        (_value("tightest", NODE_GPUS), *_at_most(1.0, 0.0, _SPLITS, -NODE_GPUS)),
    ),
    "split": ScoreTerm(  # further servers
        (*_at_most(1.0, 0.0, _SPLITS), Neuron(1.0, 1.0 - NODE_GPUS, {"partner_left_over": NODE_GPUS})),
        (Neuron(1.0, -1.0, {"fewest_servers": NODE_GPUS}),),
    ),
    "shared_links": ScoreTerm(  # links in use that the job will use, too
        (
            _value("is_crossed"),
            *(neuron._replace(factor=-neuron.factor) for neuron in _FIRST_WHOLE),
            _value("partner_is_crossed"),
        ),
        (*_at_most(2.0, 0.0, _BEYOND), *_at_most(2.0, _FAR, _ON_ONE, -1.0)),
    ),
    "unused_links": ScoreTerm(_FIRST_WHOLE, _at_most(1.0, 0.0, _BY_TIGHTEST)),  # links in use that the job will not use
}
STARTS = {  # coefficients; those that are not named are 0
    "estimated costs": {"estimated_cost": 1.0},
    "tightest servers": {"tightest": 0.05, "split": 1.5, "shared_links": 0.2, "unused_links": -0.075},
}
ESTIMATED_COSTS = "estimated costs"


class HeadNeurons(NamedTuple):
    """The first hidden neurons of a head.

    Attributes:
        weight: Shape (inputs of the head, neurons).
        bias: Shape (neurons,).
        out: Factors of the neurons in the scores, shape (neurons, 1).
    """

    weight: Array
    bias: Array
    out: Array


def heads(sizes: NetworkSizes, coefficients: Mapping[str, float]) -> dict[str, HeadNeurons]:
    """Return the neurons of some terms by the name of the head: the scores are minus the sum of the terms / `SCORE_UNIT`.

    Args:
        sizes: Of the network.
        coefficients: Of the terms.
    """
    by_term = [(TERMS[name], by) for name, by in coefficients.items()]
    servers = [(neuron, by) for term, by in by_term for neuron in term.server]
    partitions = [(neuron, by) for term, by in by_term for neuron in term.partition]
    return {"actor": _head(sizes, "choice", servers), "forward": _head(sizes, "reach", partitions)}


def _head(sizes: NetworkSizes, kind: str, neurons: list[tuple[Neuron, float]]) -> HeadNeurons:
    """Return neurons, each with the coefficient of its term, as the arrays of a head."""
    rows = _rows(sizes, kind)
    inputs = 1 + rows[FEATURES["task"][-1]]
    shapes = (inputs, len(neurons)), (len(neurons),), (len(neurons), 1)
    found = HeadNeurons(*(np.zeros(shape, np.float32) for shape in shapes))
    for at, (neuron, coefficient) in enumerate(neurons):
        found.bias[at], found.out[at, 0] = neuron.bias, -coefficient * neuron.factor / SCORE_UNIT
        for name, weight in neuron.weights.items():
            found.weight[rows[name], at] = weight
    return found


def _rows(sizes: NetworkSizes, kind: str) -> dict[str, int]:
    """Return the row of the weights of a head at which each feature is, those of the task included; kind: choice or reach."""
    first = sizes.server_embedding if kind == "choice" else sizes.partition_embedding
    task = first + len(FEATURES[kind]) + sizes.partition_embedding
    rows = {name: task + at for at, name in enumerate(FEATURES["task"])}
    return rows | {name: first + at for at, name in enumerate(FEATURES[kind])}
