"""One aggregator: what it computes, what it refuses, and how jobs are kept apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.services.parameter_service.conftest import AggregatorProcess, Deployment, until
from tiresias.errors import UsageError
from tiresias.services.parameter_service.agent.aggregator_links import StepRefused
from tiresias.services.parameter_service.agent.client_tensor import ClientTensor
from tiresias.services.parameter_service.agent.service_client import ServiceClient
from tiresias.services.parameter_service.agent.service_job import ServiceJob
from tiresias.services.parameter_service.agent.tensor_directory import FileDirectory
from tiresias.services.parameter_service.aggregator.aggregator_settings import read_aggregator_settings
from tiresias.services.parameter_service.aggregator.hosted_job import HostedJob, JobEvents
from tiresias.services.parameter_service.aggregator.lost_ranks import LostRanks
from tiresias.services.parameter_service.aggregator.optimizer_kernels import (
    CHUNK,
    OptimizerKernel,
    Slot,
    StepNumbers,
    optimizer_spec,
)
from tiresias.services.parameter_service.aggregator.tensor_declaration import declared
from tiresias.services.parameter_service.aggregator.tensor_file import ACTIVE, TensorFile
from tiresias.services.parameter_service.aggregator.torch_addition import torch_addition
from tiresias.services.parameter_service.messages.agent_messages import InitTensor, Locate, Parameters, Pull, Push
from tiresias.services.parameter_service.messages.aggregator_messages import AdoptJob, DropJob, ReadStatistics
from tiresias.services.wire import refusal_codes
from tiresias.services.wire.channel import Channel
from tiresias.services.wire.handshake import NotAuthenticated
from tiresias.services.wire.peer_identity import agent_identity, service_identity
from tiresias.services.wire.session_messages import Accepted, Refused

ONE = np.float32(1)


class Rank:
    """A rank that uses the wire itself; `parameters` is what it pulled last."""

    def __init__(self, job: ServiceJob, place: AggregatorProcess, rank: int = 0) -> None:
        self.channel = Channel.connect(place.address, agent_identity(job.name, rank, job.run), job.key, 20)
        self.parameters = np.zeros(0, np.float32)

    def init(self, name: str = "a", size: int = 4, **options: Any) -> Any:
        content = InitTensor(name, (size,), options.pop("dtype", "float32"), "sgd", {"lr": 1.0}, **options)
        return self.channel.request(content, np.zeros(size, np.float32).data)

    def push(self, gradient: Any, step: int, name: str = "a", epoch: int = 1) -> None:
        self.channel.send(Push(name, epoch, step), np.asarray(gradient, np.float32).data)

    def pull(self, step: int, name: str = "a", epoch: int = 1) -> Any:
        return self.channel.request(Pull(name, epoch, step), place=self._place)

    def _place(self, content: Any, size: int) -> memoryview:
        self.parameters = np.zeros(size // 4, np.float32)
        return self.parameters.data


@pytest.fixture
def place(deployment: Deployment) -> AggregatorProcess:
    return deployment.aggregator()


def two_ranks(deployment: Deployment, place: AggregatorProcess, **settings: Any) -> tuple[Rank, Rank]:
    job = deployment.job("job", 2, place, **settings)
    return Rank(job(0), place, 0), Rank(job(1), place, 1)


# -- rounds -------------------------------------------------------------------------------------------------------------------


def test_a_round_waits_for_each_rank(deployment: Deployment, place: AggregatorProcess) -> None:
    one, two = two_ranks(deployment, place)
    assert one.init() == Accepted("a")
    one.push([1, 2, 3, 4], 0)
    one.channel.send(Pull("a", 1, 1))
    two.push([3, 2, 1, 0], 0)
    assert two.pull(1) == Parameters("a", 1)
    assert two.parameters.tolist() == [-2, -2, -2, -2]
    assert one.channel.receive(one._place) == Parameters("a", 1)
    assert one.parameters.tolist() == [-2, -2, -2, -2]


def test_an_aggregator_that_updates_by_pytorch(deployment: Deployment) -> None:
    pytest.importorskip("torch", reason="the option is for nodes with PyTorch")
    one, two = two_ranks(deployment, deployment.aggregator(torch=True))
    one.init()
    for rank in (one, two):
        rank.push([1, 2, 3, 4], 0)
        rank.channel.send(Pull("a", 1, 1))
    assert one.channel.receive(one._place) == Parameters("a", 1)
    assert one.parameters.tolist() == [-1, -2, -3, -4]


def test_the_sum_does_not_depend_on_the_order_of_arrival(deployment: Deployment, place: AggregatorProcess) -> None:
    gradients = [np.array([1e8], np.float32), np.array([1], np.float32), np.array([-1e8], np.float32)]
    results = []
    for number, order in enumerate(((0, 1, 2), (2, 1, 0), (1, 2, 0))):
        job = deployment.job(f"job-{number}", 3, place)
        ranks = [Rank(job(rank), place, rank) for rank in range(3)]
        ranks[0].init(size=1)
        for rank in order:
            ranks[rank].push(gradients[rank], 0)
            ranks[rank].channel.request(Locate("a"))  # the gradient has arrived
        ranks[0].pull(1)
        results.append(ranks[0].parameters.tobytes())
    assert len(set(results)) == 1


def test_a_repeated_push_is_not_added_twice(deployment: Deployment, place: AggregatorProcess) -> None:
    one, two = two_ranks(deployment, place)
    one.init()
    for _ in range(3):
        one.push([1, 1, 1, 1], 0)
    two.push([3, 3, 3, 3], 0)
    assert one.pull(1) == Parameters("a", 1)
    assert one.parameters.tolist() == [-2] * 4
    one.push([9, 9, 9, 9], 0)  # of a step that is in the parameters
    assert one.pull(1) == Parameters("a", 1)
    assert one.parameters.tolist() == [-2] * 4


def test_a_new_connection_of_a_rank_replaces_the_one_before(deployment: Deployment, place: AggregatorProcess) -> None:
    job = deployment.job("job", 1, place)
    one = Rank(job(0), place)
    one.init(size=100000)
    one.channel._sock.sendall(b"TP\x01")  # in the middle of a frame
    again = Rank(job(0), place)
    again.push(np.ones(100000), 0)
    assert again.pull(1) == Parameters("a", 1)
    assert again.parameters.tolist() == [-1] * 100000


def test_a_step_does_not_wait_for_a_rank_that_is_lost(deployment: Deployment) -> None:
    """One that connects again within the bound, or has not connected yet, is not lost."""
    place = deployment.aggregator(lost_rank_s=1.0)
    job = deployment.job("job", 3, place, push_timeout_s=600.0)
    ranks = [Rank(job(rank), place, rank) for rank in range(2)]
    ranks[0].init()
    ranks[1].channel.close()
    ranks[0].push([1, 1, 1, 1], 0)
    answer = ranks[0].pull(1)
    text = "tensor a: rank 1 lost the connection and has not connected again within 1 s"
    assert (answer.code, answer.text) == (refusal_codes.FATAL, text)
    ranks[0].channel.send(Pull("a", 1, 1))
    again, third = Rank(job(1), place, 1), Rank(job(2), place, 2)
    for rank in (again, third):
        rank.push([1, 1, 1, 1], 0)
    assert ranks[0].channel.receive(ranks[0]._place) == Parameters("a", 1)


def test_a_new_run_begins_without_lost_ranks() -> None:
    lost = LostRanks()
    for run in (0, 1):
        for rank in (0, 1):
            lost.joined(agent_identity("job", rank, run))
        lost.left(agent_identity("job", 1, run), 10.0)
        assert lost.for_longer_than(5.0, 16.0) == {1}
        assert lost.for_longer_than(5.0, 14.0) == set()
    lost.joined(agent_identity("job", 0, 2))
    lost.left(agent_identity("job", 0, 1), 12.0)  # what is left of the run before ends
    assert lost.for_longer_than(5.0, 100.0) == set()


WRONG: dict[str, tuple[Callable[[Rank], None], str, str]] = {
    "another shape": (
        lambda rank: rank.push([1, 2], 0),
        refusal_codes.FATAL,
        "a gradient of 8 bytes from rank 0; declared: shape [4]",
    ),
    "another dtype": (
        lambda rank: rank.channel.send(Push("a", 1, 0), np.zeros(4).data),
        refusal_codes.FATAL,
        "float32, 16 bytes",
    ),
    "a step too many": (lambda rank: rank.push([1] * 4, 5), refusal_codes.FATAL, "pushes step 5 after step -1"),
    "an older epoch": (lambda rank: rank.push([1] * 4, 0, epoch=0), refusal_codes.MOVED, "has moved"),
    "a newer epoch": (lambda rank: rank.push([1] * 4, 0, epoch=2), refusal_codes.MOVED, "has moved"),
    "an unknown tensor": (
        lambda rank: rank.push([1] * 4, 0, name="b"),
        refusal_codes.UNKNOWN,
        "tensor b: not on this aggregator",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_push_is_refused_in_one_line_and_the_next_one_counts(
    deployment: Deployment, place: AggregatorProcess, kind: str
) -> None:
    work, code, text = WRONG[kind]
    rank = Rank(deployment.job("job", 1, place)(0), place)
    rank.init()
    work(rank)
    refused = rank.channel.receive()
    assert isinstance(refused, Refused)
    assert (refused.code, text in refused.text, "\n" in refused.text) == (code, True, False)
    rank.push([1, 1, 1, 1], 0)
    assert rank.pull(1) == Parameters("a", 1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dtype": "float16"}, "dtype float16; available: float32, float64"),
        ({"size": 1 << 20, "name": "large"}, "of its bound of 1000000 bytes on this aggregator"),
        ({"name": ""}, "a tensor's name has 1 to 512 letters"),
        ({"name": "x" * 513}, "a tensor's name has 1 to 512 letters"),
        ({"size": 8}, "is declared twice: before with shape [4], float32, sgd"),
        ({"version": 3, "name": "b"}, "a restored version has two counts"),
    ],
)
def test_a_wrong_declaration_is_refused_in_one_line(
    deployment: Deployment, place: AggregatorProcess, options: dict[str, Any], text: str
) -> None:
    rank = Rank(deployment.job("job", 1, place, memory_bytes=1000000)(0), place)
    assert rank.init() == Accepted("a")
    refused = rank.init(**options)
    assert isinstance(refused, Refused)
    assert text in refused.text
    assert rank.init() == Accepted("a")


def test_only_rank_0_declares(deployment: Deployment, place: AggregatorProcess) -> None:
    _, two = two_ranks(deployment, place)
    assert "only rank 0 may" in two.init().text


def test_the_bound_of_the_aggregator(deployment: Deployment) -> None:
    place = deployment.aggregator(memory_mib=1)
    rank = Rank(deployment.job("job", 1, place)(0), place)
    assert "this aggregator has 1048576 free" in rank.init(size=1 << 20).text


def test_cpu_time_memory_and_versions_are_reported(deployment: Deployment, place: AggregatorProcess) -> None:
    rank = Rank(deployment.job("job", 1, place)(0), place)
    rank.init(size=1 << 20)
    for step in range(3):
        rank.push(np.ones(1 << 20), step)
        rank.pull(step + 1)
    job = deployment.statistics(place)["jobs"]["job"]
    tensor = job["tensors"]["a"]
    assert (tensor["version"], tensor["updates"], tensor["bytes"], tensor["epoch"]) == (3, 3, 4 << 20, 1)
    assert 0.001 < tensor["cpu_s"] <= deployment.statistics(place)["cpu_s"]
    assert 12 << 20 < job["memory_bytes"] < 13 << 20  # two slots and a gradient
    assert job["connections"] == [0]


# -- jobs are kept apart ------------------------------------------------------------------------------------------------------


def test_a_job_reaches_only_its_own_tensors(deployment: Deployment, place: AggregatorProcess) -> None:
    alice, bob = (Rank(deployment.job(name, 1, place)(0), place) for name in ("alice", "bob"))
    alice.init("secret")
    assert bob.channel.request(Locate("secret")).state == "unknown"
    assert bob.pull(0, "secret").code == refusal_codes.UNKNOWN
    bob.push([5] * 4, 0, "secret")
    assert bob.channel.receive().code == refusal_codes.UNKNOWN
    assert bob.init("secret") == Accepted("secret")  # a tensor of its own
    bob.push([5] * 4, 0, "secret")
    bob.pull(1, "secret")
    alice.pull(0, "secret")
    assert alice.parameters.tolist() == [0] * 4


@pytest.mark.parametrize("content", [AdoptJob("alice", "0" * 64, 1, 1), DropJob("alice"), ReadStatistics()])
def test_an_agent_cannot_use_requests_of_the_service(
    deployment: Deployment, place: AggregatorProcess, content: Any
) -> None:
    alice = Rank(deployment.job("alice", 1, place)(0), place)
    alice.init()
    bob = Rank(deployment.job("bob", 1, place)(0), place)
    assert "from an agent" in bob.channel.request(content).text
    assert alice.pull(0) == Parameters("a", 0)


def test_keys_do_not_open_other_identities(deployment: Deployment, place: AggregatorProcess) -> None:
    alice, bob = deployment.job("alice", 1, place)(0), deployment.job("bob", 1, place)(0)
    for identity, key in (
        (agent_identity("alice", 0, 0), bob.key),
        (service_identity("manager"), bob.key),
        (agent_identity("alice", 0, 0), deployment.key),
        (agent_identity("carol", 0, 0), alice.key),
    ):
        with pytest.raises(NotAuthenticated):
            Channel.connect(place.address, identity, key, 20)


def test_a_dropped_job_leaves_nothing(deployment: Deployment, place: AggregatorProcess) -> None:
    rank = Rank(deployment.job("job", 1, place)(0), place)
    rank.init()
    for _ in range(2):
        assert deployment.request(place, DropJob("job")) == Accepted()
    assert "was removed" in rank.channel.receive().text
    assert [*(place.folder / "state/jobs").iterdir()] == []
    assert deployment.statistics(place)["jobs"] == {}


@pytest.mark.parametrize(
    "content",
    [
        AdoptJob("../x", "0" * 64, 1, 1),
        AdoptJob("x", "short", 1, 1),
        AdoptJob("x", "0" * 64, 0, 1),
        AdoptJob("x", "0" * 64, 1, 1, mode="other"),
        AdoptJob("x", "0" * 64, 1, 1, on_nan="other"),
    ],
)
def test_wrong_settings_of_a_job_are_refused(
    deployment: Deployment, place: AggregatorProcess, content: AdoptJob
) -> None:
    assert deployment.request(place, content).code == refusal_codes.FATAL


def test_files_are_private(deployment: Deployment, place: AggregatorProcess) -> None:
    rank = Rank(deployment.job("job", 1, place)(0), place)
    rank.init()
    files = [each for each in (place.folder / "state").rglob("*") if each.is_file()]
    assert len(files) == 3  # the lock, the settings, the tensor
    assert {each.stat().st_mode & 0o077 for each in files} == {0}


# -- the process --------------------------------------------------------------------------------------------------------------


def test_a_killed_aggregator_goes_on_with_every_update(deployment: Deployment, place: AggregatorProcess) -> None:
    job = deployment.job("job", 1, place)
    rank = Rank(job(0), place)
    rank.init()
    for step in range(5):
        rank.push([1, 2, 3, 4], step)
        rank.pull(step + 1)
        place.restart()
        rank = Rank(job(0), place)
    assert rank.pull(5) == Parameters("a", 5)
    assert rank.parameters.tolist() == [-5, -10, -15, -20]


def test_two_processes_cannot_use_one_folder(deployment: Deployment, place: AggregatorProcess) -> None:
    command = [
        sys.executable,
        "-m",
        "tiresias.services.parameter_service.aggregator",
        str(place.folder / "config.json"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == f"tiresias: {place.folder / 'state'}: another aggregator uses this folder\n"


def test_a_damaged_tensor_is_reported_and_the_others_are_served(
    deployment: Deployment, place: AggregatorProcess
) -> None:
    job = deployment.job("job", 1, place)
    rank = Rank(job(0), place)
    rank.init("a")
    rank.init("b")
    place.kill()
    for file in (place.folder / "state/jobs/job").glob("*.tensor"):
        if b'"tensor": "a"' in file.read_bytes():
            file.write_bytes(os.urandom(5000))
    place.start()
    assert "no master copy of a tensor" in place.log
    assert Rank(job(0), place).pull(0, "b") == Parameters("b", 0)


def test_sigterm_ends_it(place: AggregatorProcess) -> None:
    assert place.stop() == 0


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"listen": ":0"}, "listen has the form host:port"),
        ({"listen": "a:b"}, "invalid literal"),
        ({"other": 1}, "unknown key other; allowed: announce"),
        ({"memory_mib": 0}, "memory_mib is a whole number above 0"),
        ({"service_key_file": "/nonexistent"}, "/nonexistent"),
        ({"protect": "tls"}, "protect is none or mac"),
        ({"torch": "yes"}, "torch is true or false"),
        ({"state": None}, "config.json"),
    ],
)
def test_a_wrong_configuration_is_one_line(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    (key := tmp_path / "key").touch(0o600)
    key.write_text("0" * 64)
    (file := tmp_path / "config.json").touch(0o600)
    content = {"listen": "127.0.0.1:0", "state": str(tmp_path / "state"), "service_key_file": str(key)} | change
    file.write_text(json.dumps(content))
    with pytest.raises(UsageError) as error:
        read_aggregator_settings(file)
    assert text in str(error.value)
    assert "\n" not in str(error.value)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    (file := tmp_path / "config.json").touch(0o644)
    file.write_text("{}")
    with pytest.raises(UsageError, match="chmod 600"):
        read_aggregator_settings(file)


def test_one_client_serves_many_tensors_on_two_aggregators(deployment: Deployment, place: AggregatorProcess) -> None:
    job = deployment.job("job", 1, place, deployment.aggregator())(0)
    client = ServiceClient(job, FileDirectory(job.file))
    places = [bytearray(8) for _ in range(50)]
    tensors = [ClientTensor(f"t{at}", 8, memoryview(each)) for at, each in enumerate(places)]
    client.assign(tensors)
    for tensor in tensors:
        client.declare(tensor, InitTensor(tensor.name, (2,), "float32", "sgd", {"lr": 1.0}), bytes(8))
    gradient = np.array([1, 2], np.float32)
    for _ in range(4):
        for tensor in tensors:
            client.push(tensor, lambda: [gradient.data])
        client.complete(tensors)
    assert {np.frombuffer(each, np.float32).tobytes() for each in places} == {np.array([-4, -8], np.float32).tobytes()}
    assert [len(deployment.tensors(each, "job")) for each in deployment.aggregators] == [25, 25]
    with pytest.raises(UsageError, match="two tensors are named t0"):
        client.assign([ClientTensor("t0", 8, memoryview(bytearray(8)))])
    client.close()
    until(lambda: deployment.statistics(place)["jobs"]["job"]["connections"] == [], "the connection ends")
    assert issubclass(StepRefused, UsageError)


# -- pure parts ---------------------------------------------------------------------------------------------------------------


@given(
    st.integers(1, 2 * CHUNK + 5),
    st.sampled_from(["sgd", "adam"]),
    st.integers(1, 4),
    st.sampled_from(["float32", "float64"]),
)
def test_chunks_change_nothing(count: int, name: str, ranks: int, dtype: str) -> None:
    """The update of a whole array is that of its elements alone."""
    spec = optimizer_spec(name, {"lr": 0.1, "weight_decay": 0.01} | ({"momentum": 0.9} if name == "sgd" else {}))
    random = np.random.default_rng(count)
    gradients = [random.normal(size=count).astype(dtype) for _ in range(ranks)]
    old = Slot(
        random.normal(size=count).astype(dtype),
        [np.abs(random.normal(size=count)).astype(dtype) for _ in range(spec.arrays)],
    )
    new = Slot(np.empty_like(old.parameters), [np.empty_like(each) for each in old.state])
    assert OptimizerKernel(np.dtype(dtype)).update(spec, StepNumbers(3, 0.1), gradients, old, new)
    part = slice(count // 2, count // 2 + 1)
    single_old = Slot(old.parameters[part], [each[part] for each in old.state])
    single = Slot(np.empty(1, dtype), [np.empty(1, dtype) for _ in old.state])
    OptimizerKernel(np.dtype(dtype)).update(
        spec, StepNumbers(3, 0.1), [each[part] for each in gradients], single_old, single
    )
    assert new.parameters[part] == single.parameters
    assert np.abs(new.parameters - old.parameters).max() > 0


@given(st.integers(1, 2 * CHUNK + 5), st.sampled_from(["plain", "momentum", "nesterov", "adam"]))
def test_pytorch_makes_the_same_bits(count: int, kind: str) -> None:
    pytest.importorskip("torch", reason="the option is for nodes with PyTorch")
    options = {"momentum": {"momentum": 0.9, "dampening": 0.1}, "nesterov": {"momentum": 0.9, "nesterov": 1.0}}
    spec = optimizer_spec("adam" if kind == "adam" else "sgd", {"weight_decay": 0.01} | options.get(kind, {}))
    random = np.random.default_rng(count)
    made = [np.abs(random.normal(size=count)).astype(np.float32) for _ in range(3)]
    old, *news = (Slot(made[0].copy(), [each.copy() for each in made[1:]]) for _ in range(3))
    gradients = [random.normal(size=count).astype(np.float32) for _ in range(2)]
    for new, fused in zip(news, (None, torch_addition()), strict=True):
        kernel = OptimizerKernel(np.dtype(np.float32), fused)
        kernel.update(spec, StepNumbers(3, 0.1), gradients, old, Slot(new.parameters, new.state[: spec.arrays]))
    assert news[0].parameters.tobytes() == news[1].parameters.tobytes()
    for one, two in zip(news[0].state[: spec.arrays], news[1].state[: spec.arrays], strict=True):
        assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_element_that_is_not_finite_is_found(value: float) -> None:
    gradient = np.ones(40000, np.float32)
    kernel, spec = OptimizerKernel(np.dtype(np.float32)), optimizer_spec("sgd", {})
    old, new = Slot(np.zeros(40000, np.float32), []), Slot(np.zeros(40000, np.float32), [])
    assert kernel.update(spec, StepNumbers(0, 0.1), [gradient * np.float32(1e30)], old, new)  # its square is not finite
    gradient[39999] = value
    assert not kernel.update(spec, StepNumbers(0, 0.1), [gradient], old, new)


@pytest.mark.parametrize(("name", "options"), [("lion", {}), ("sgd", {"betas": 0.9})])
def test_unknown_optimizers_and_options(name: str, options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="available"):
        optimizer_spec(name, options)


def test_a_tensor_file_survives_and_has_two_slots(tmp_path: Path) -> None:
    declaration = declared(InitTensor("weight", (3, 5), "float32", "adam"))
    file = TensorFile.create(tmp_path / "x.tensor", declaration, 2, epoch=7, state=ACTIVE, run=3)
    file.spare.parameters[:] = 2
    file.spare.state[1][:] = 4
    file.commit(1, [1, 0, 1, 1])
    file.spare.parameters[:] = 9  # an update that is not committed
    again = TensorFile.open(tmp_path / "x.tensor", 2)
    assert (again.version, again.epoch, again.state, again.run) == (1, 7, ACTIVE, 3)
    assert again.current.parameters.tolist() == [2] * 15
    assert again.current.state[1].tolist() == [4] * 15
    assert again.counts.tolist() == [1, 0, 1, 1]
    assert again.declaration == declaration


def test_a_job_folder_is_read_again(tmp_path: Path) -> None:
    events = JobEvents(lambda job, copy: None, lambda job, copy: None)
    job = HostedJob(tmp_path / "job", AdoptJob("job", "0" * 64, 2, 1 << 30), events)
    job.store()
    job.tensors["a"] = job.create(declared(InitTensor("a", (3,), "float32", "sgd")), 1, 0)
    job.create_staged(declared(InitTensor("b", (3,), "float32", "sgd")), 4, 0)  # without content: worth nothing
    again = HostedJob.opened(tmp_path / "job", events)
    assert again.load() == []
    assert ([*again.tensors], [*again.staged]) == (["a"], [])
    assert again.settings == job.settings
