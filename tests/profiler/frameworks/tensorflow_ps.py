"""TensorFlow's ParameterServerStrategy: servers, workers and the coordinator, which has the last rank.

A round is one step by each worker: it reads all variables from their servers, and adds its gradients to them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

from trainee import Diary, arguments, counts

ROLES = ("worker", "ps", "chief")


def main() -> None:
    args = arguments()
    role, index = _role(args)
    os.environ["TF_CONFIG"] = json.dumps({"cluster": _cluster(args), "task": {"type": role, "index": index}})
    import tensorflow as tf  # reads the environment

    tf.config.threading.set_inter_op_parallelism_threads(2)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if role == "chief":
        coordinate(tf, resolver, args)
    else:
        tf.distribute.Server(resolver.cluster_spec(), role, index, protocol="grpc", start=True).join()


def _role(args: argparse.Namespace) -> tuple[str, int]:
    index = args.rank
    for role, count in zip(ROLES, (args.workers, args.servers, 1), strict=True):
        if index < count:
            return role, index
        index -= count
    raise ValueError(args.rank)


def _cluster(args: argparse.Namespace) -> dict[str, list[str]]:
    addresses = [f"localhost:{port}" for port in args.ports]
    ends = (args.workers, args.workers + args.servers)
    return dict(zip(ROLES, (addresses[: ends[0]], addresses[ends[0] : ends[1]], addresses[ends[1] :]), strict=True))


def coordinate(tf: Any, resolver: Any, args: argparse.Namespace) -> None:
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        variables = [tf.Variable(tf.zeros([count])) for count in counts(args)]

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.nn.l2_loss(variable) for variable in variables])
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(0.01 * gradient)

    @tf.function  # type: ignore[untyped-decorator]  # tensorflow is not installed where types are checked
    def round_of_one() -> None:
        strategy.run(step)

    coordinator = tf.distribute.experimental.coordinator.ClusterCoordinator(strategy)
    diary = Diary(args)
    for _ in range(args.iterations):
        diary.begin()
        time.sleep(args.compute)
        for _ in range(args.workers):
            coordinator.schedule(round_of_one)
        coordinator.join()
    diary.close()


if __name__ == "__main__":
    main()
