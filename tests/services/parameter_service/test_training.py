"""Training through the service equals training in one process: undisturbed, while tensors move, and while aggregators die."""

from __future__ import annotations

import copy
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.services.parameter_service.conftest import AggregatorProcess, Deployment

pytest.importorskip("torch", reason="the agent is for PyTorch programs")

import torch

from tests.services.parameter_service.training import (
    INPUTS,
    OPTIMIZERS,
    STEPS,
    TARGETS,
    Training,
    alone,
    backward,
    difference,
    network,
)
from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.adapters.torch import TrainingState
from tiresias.errors import Unavailable, UsageError
from tiresias.services.parameter_service.agent import (
    ParameterServiceOptimizer,
    ServiceHook,
    average_by_service,
)
from tiresias.services.parameter_service.agent.service_client import LOST_AFTER_S, TensorLost
from tiresias.services.parameter_service.agent.tensor_directory import FileDirectory
from tiresias.services.parameter_service.aggregator.adopt import adopt_job
from tiresias.services.parameter_service.messages.aggregator_messages import AdoptJob

BAR = 1e-6


def check(training: Training, kind: str) -> None:
    first, second = training.models
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert difference(first, alone(kind)) <= BAR


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_200_steps_equal_one_process(deployment: Deployment, kind: str) -> None:
    training = Training(kind, deployment.job("job", 2, deployment.aggregator()))
    training.train()
    check(training, kind)
    if kind in {"sgd", "momentum", "nesterov"}:  # the same rounding in each operation
        assert difference(training.models[0], alone(kind)) == 0


@pytest.mark.parametrize("kind", ["momentum", "adam"])
def test_a_migration_each_20th_step_changes_nothing(deployment: Deployment, kind: str) -> None:
    one, two = deployment.aggregator(), deployment.aggregator()
    training = Training(kind, deployment.job("job", 2, one, two), block_bytes=1024)
    for step in range(20, STEPS, 20):
        training.before[step] = lambda: move_each_tensor(deployment, one, two)
    training.train()
    check(training, kind)
    versions = [each["version"] for place in (one, two) for each in deployment.tensors(place, "job").values()]
    assert versions == [STEPS] * 7  # 4 KiB of weights in 4 blocks, three other tensors
    epochs = [each["epoch"] for place in (one, two) for each in deployment.tensors(place, "job").values()]
    assert min(epochs) > 1, "each has moved; the idle windows decide how often"


def move_each_tensor(deployment: Deployment, one: AggregatorProcess, two: AggregatorProcess) -> None:
    for old, new in ((one, two), (two, one)):
        for name in deployment.tensors(old, "job"):
            deployment.migrate("job", name, old, new)


@pytest.mark.parametrize("kind", ["momentum", "adam"])
def test_a_drained_and_a_killed_aggregator_change_nothing(deployment: Deployment, kind: str) -> None:
    one, two = deployment.aggregator(), deployment.aggregator()
    training = Training(kind, deployment.job("job", 2, one))
    training.before = {
        30: one.restart,
        60: lambda: deployment.drain(one, adopted_by(deployment, two)),
        90: two.restart,
        91: two.restart,
    }
    training.train()
    check(training, kind)
    assert deployment.tensors(one, "job") == {}
    assert deployment.statistics(one)["draining"]


def adopted_by(deployment: Deployment, place: AggregatorProcess) -> AggregatorProcess:
    """Return an aggregator that is not in the job file: the agents find it by the answers of the first one alone."""
    assert deployment.statistics(place)["jobs"] == {}
    return place


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam"])
def test_a_training_that_is_stopped_resumes_from_its_checkpoint(
    deployment: Deployment, tmp_path: Path, kind: str
) -> None:
    """Through the product's checkpoints, by new runs; what the service has is newer than the checkpoint."""
    job = deployment.job("job", 2, deployment.aggregator(), deployment.aggregator())
    first = Training(kind, job)
    checkpointer = Checkpointer(tmp_path / "store")

    class Saved:
        def __init__(self, content: Any) -> None:
            self.content = content

        def state_dict(self) -> Any:
            return self.content

        def load_state_dict(self, content: Any) -> None:
            self.content = content

    first.train(0, 120)
    state = TrainingState(model=Saved(first.saved["model"]), optimizer=Saved(first.saved["optimizer"]))
    state.save(checkpointer, 120)
    second = Training(kind, job, run=1)
    second.train(0, 7)  # another run that changes everything in the service, and ends without a checkpoint
    third = Training(kind, job, run=2)

    restored = {"model": Saved(None), "optimizer": Saved(None)}
    assert TrainingState(**restored).restore(checkpointer) == 120

    def restore(model: torch.nn.Module, optimizer: ParameterServiceOptimizer) -> None:
        optimizer.load_state_dict(restored["optimizer"].content)
        model.load_state_dict(restored["model"].content)

    third.train(120, STEPS, restore)
    check(third, kind)


def test_a_rank_that_starts_late_resumes_after_rank_0_has_stored_its_checkpoint(deployment: Deployment) -> None:
    job = deployment.job("job", 2, deployment.aggregator())
    first = Training("momentum", job)
    first.train(0, 20)
    models = [network(), network()]

    def begun(rank: int) -> ParameterServiceOptimizer:
        inner = OPTIMIZERS["momentum"](models[rank].parameters())
        optimizer = ParameterServiceOptimizer(inner, models[rank], job=job(rank, run=1))
        optimizer.load_state_dict(first.saved["optimizer"])
        models[rank].load_state_dict(first.saved["model"])
        backward(models[rank], 20, rank)  # the first push stores what was restored
        return optimizer

    optimizers = [begun(0), begun(1)]
    thread = threading.Thread(target=optimizers[0].step)
    thread.start()
    optimizers[1].step()
    thread.join(60)
    assert difference(models[0], alone("momentum", 21)) == difference(models[1], alone("momentum", 21)) == 0
    for each in optimizers:
        each.close()


def test_the_saved_state_is_that_of_torch_optim(deployment: Deployment) -> None:
    """A plain torch.optim optimizer continues from it."""
    training = Training("adam", deployment.job("job", 2, deployment.aggregator()), block_bytes=512)
    training.train(0, 50)
    reference, model = alone("adam", 51), network()
    model.load_state_dict(training.saved["model"])
    optimizer = OPTIMIZERS["adam"](model.parameters())
    optimizer.load_state_dict({name: training.saved["optimizer"][name] for name in ("state", "param_groups")})
    gradients = []
    for rank in (0, 1):
        model.zero_grad()
        backward(model, 50, rank)
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    for parameter, one, two in zip(model.parameters(), *gradients, strict=True):
        parameter.grad = (one + two) / 2
    optimizer.step()
    assert difference(model, reference) <= BAR


def test_a_learning_rate_schedule_reaches_the_service(deployment: Deployment) -> None:
    job = deployment.job("job", 1, deployment.aggregator())
    model, plain = network(), network()
    optimizer = ParameterServiceOptimizer(OPTIMIZERS["momentum"](model.parameters()), model, job=job(0))
    other = OPTIMIZERS["momentum"](plain.parameters())
    schedules = [torch.optim.lr_scheduler.StepLR(each, 5, 0.5) for each in (optimizer, other)]
    for step in range(20):
        for network_, optimizer_, schedule in zip((model, plain), (optimizer, other), schedules, strict=True):
            optimizer_.zero_grad()
            backward(network_, step, 0)
            optimizer_.step()
            schedule.step()
    assert difference(model, plain) == 0
    optimizer.close()


def test_a_changed_momentum_is_one_line(deployment: Deployment) -> None:
    """OneCycleLR changes it, unless it is told not to."""
    job, model = deployment.job("job", 1, deployment.aggregator()), network()
    optimizer = ParameterServiceOptimizer(OPTIMIZERS["momentum"](model.parameters()), model, job=job(0))
    optimizer.param_groups[0]["momentum"] = 0.8
    backward(model, 0, 0)
    with pytest.raises(UsageError, match="takes momentum when the optimizer is made"):
        optimizer.step()
    optimizer.close()


def test_clipping_and_accumulation(deployment: Deployment) -> None:
    """Gradients that a program changes before step() are pushed there; two backward passes make one step."""
    job = deployment.job("job", 1, deployment.aggregator())
    for options in ({"overlap": False}, {"backwards_per_step": 2}):
        model, plain = network(), network()
        inner = OPTIMIZERS["sgd"](model.parameters())
        identity = job(0, run=len(options) + bool(options.get("overlap", True)))
        optimizer = ParameterServiceOptimizer(inner, model, job=identity, **options)
        other = OPTIMIZERS["sgd"](plain.parameters())
        for step in range(10):
            for network_, optimizer_ in ((model, optimizer), (plain, other)):
                optimizer_.zero_grad()
                backward(network_, step, 0)
                backward(network_, step, 1)
                if "overlap" in options:
                    torch.nn.utils.clip_grad_norm_(network_.parameters(), 0.1)
                optimizer_.step()
        assert difference(model, plain) == 0
        optimizer.close()


def test_asynchronous_training_of_one_rank_is_the_synchronous_one(deployment: Deployment) -> None:
    job = deployment.job("job", 1, deployment.aggregator(), mode="asynchronous", staleness=3)
    model, plain = network(), network()
    optimizer = ParameterServiceOptimizer(OPTIMIZERS["momentum"](model.parameters()), model, job=job(0))
    other = OPTIMIZERS["momentum"](plain.parameters())
    for step in range(50):
        for network_, optimizer_ in ((model, optimizer), (plain, other)):
            optimizer_.zero_grad()
            backward(network_, step, 0)
            optimizer_.step()
    assert difference(model, plain) == 0
    optimizer.close()


def test_asynchronous_ranks_converge(deployment: Deployment) -> None:
    training = Training("sgd", deployment.job("job", 2, deployment.aggregator(), mode="asynchronous", staleness=2))
    training.train()
    inputs, targets = training_data()
    before, after = [torch.nn.functional.mse_loss(each(inputs), targets) for each in (network(), training.models[0])]
    assert after.item() < before.item()


def training_data() -> tuple[torch.Tensor, torch.Tensor]:
    return INPUTS.reshape(-1, 16), TARGETS.reshape(-1, 4)


# -- the hook of DistributedDataParallel ----------------------------------------------------------------------------------------


def test_the_hook_of_ddp_averages(deployment: Deployment, tmp_path: Path) -> None:
    """One rank, in this process: the gradients that DDP gets are the pushed ones, in each bucket of each step."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        job = deployment.job("job", 1, deployment.aggregator())
        plain, inner = network(), network()
        model = torch.nn.parallel.DistributedDataParallel(inner, bucket_cap_mb=1)
        identity = job(0)
        hook = ServiceHook(identity, FileDirectory(identity.file))
        model.register_comm_hook(hook, average_by_service)
        optimizers = [torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (inner, plain)]
        for step in range(5):
            for network_, optimizer in zip((model, plain), optimizers, strict=True):
                optimizer.zero_grad()
                backward(network_, step, 0)
                optimizer.step()
        assert difference(inner, plain) == 0
        hook.close()
    finally:
        torch.distributed.destroy_process_group()


# -- what is refused ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["RMSprop", "amsgrad", "half", "sparse"])
def test_what_is_not_supported_is_one_line(deployment: Deployment, change: str) -> None:
    job, model = deployment.job("job", 1, deployment.aggregator()), network()
    if change == "half":
        model = model.half()
    kinds = {
        "RMSprop": lambda: torch.optim.RMSprop(model.parameters()),
        "amsgrad": lambda: torch.optim.Adam(model.parameters(), amsgrad=True),
    }
    optimizer = kinds.get(change, lambda: torch.optim.SGD(model.parameters(), lr=0.1))()
    if change == "sparse":
        model = torch.nn.Embedding(10, 4, sparse=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        served = ParameterServiceOptimizer(optimizer, model, job=job(0), overlap=False)
        model(torch.tensor([1, 2])).sum().backward()
        with pytest.raises(UsageError, match="weight: a gradient of shape"):
            served.step()
        served.close()
        return
    with pytest.raises(UsageError, match=r"the (parameter )?service (has|supports)"):
        ParameterServiceOptimizer(optimizer, model, job=job(0))


def test_a_nan_gradient_stops_the_job_in_one_line(deployment: Deployment) -> None:
    job, model = deployment.job("job", 1, deployment.aggregator()), network()
    optimizer = ParameterServiceOptimizer(OPTIMIZERS["sgd"](model.parameters()), model, job=job(0))
    (model(torch.full((1, 16), float("nan")))).sum().backward()
    with pytest.raises(UsageError, match="the gradient of rank 0 in step 0 has NaN or Inf"):
        optimizer.step()
    optimizer.close()


def test_a_nan_gradient_is_skipped_and_counted(deployment: Deployment) -> None:
    place = deployment.aggregator()
    job, model = deployment.job("job", 1, place, on_nan="skip"), network()
    optimizer = ParameterServiceOptimizer(OPTIMIZERS["momentum"](model.parameters()), model, job=job(0))
    (model(torch.ones(1, 16)) * float("nan")).sum().backward()
    optimizer.step()
    assert difference(model, network()) == 0
    optimizer.zero_grad()
    backward(model, 0, 0)
    optimizer.step()
    plain = network()
    other = OPTIMIZERS["momentum"](plain.parameters())
    backward(plain, 0, 0)
    other.step()
    assert difference(model, plain) == 0
    skipped = {name: each["skipped"] for name, each in deployment.tensors(place, "job").items()}
    assert set(skipped.values()) == {1}
    optimizer.close()


def test_a_rank_that_never_pushes_ends_its_own_job_alone(deployment: Deployment) -> None:
    place = deployment.aggregator()
    lonely = deployment.job("lonely", 2, place, push_timeout_s=1.0)
    other = Training("sgd", deployment.job("other", 2, place))
    model = network()
    optimizer = ParameterServiceOptimizer(OPTIMIZERS["sgd"](model.parameters()), model, job=lonely(0))
    backward(model, 0, 0)
    with pytest.raises(UsageError, match="rank 1 has not pushed step 0 within 1 s"):
        optimizer.step()
    optimizer.close()
    other.train()
    check(other, "sgd")


def test_a_lost_state_folder_is_one_line_and_the_job_resumes(deployment: Deployment) -> None:
    """As after the loss of a node: an aggregator without the folder of the old one gets the job from the manager."""
    place, other = deployment.aggregator(), deployment.aggregator()
    job, model, plain = deployment.job("job", 1, place, other), network(), network()
    optimizer = ParameterServiceOptimizer(OPTIMIZERS["momentum"](model.parameters()), model, job=job(0))
    reference = OPTIMIZERS["momentum"](plain.parameters())
    made_steps(plain, reference, 0, 10)
    made_steps(model, optimizer, 0, 5)
    saved = {"model": copy.deepcopy(model.state_dict()), "optimizer": optimizer.state_dict()}
    made_steps(model, optimizer, 5, 6)
    place.kill()
    shutil.rmtree(place.folder / "state")
    place.start()
    adopt_job(place.address, deployment.key, AdoptJob("job", job(0).key.hex(), 1, 1 << 30))
    began = time.monotonic()
    with pytest.raises(TensorLost, match="is lost: resume from the checkpoint"):
        made_steps(model, optimizer, 6, 7)
    assert time.monotonic() - began < 2 * LOST_AFTER_S + 10
    optimizer.close()
    again = network()
    resumed = ParameterServiceOptimizer(OPTIMIZERS["momentum"](again.parameters()), again, job=job(0, run=1))
    resumed.load_state_dict(saved["optimizer"])
    again.load_state_dict(saved["model"])
    made_steps(again, resumed, 5, 10)
    assert difference(again, plain) == 0
    resumed.close()


def made_steps(model: torch.nn.Module, optimizer: torch.optim.Optimizer, first: int, last: int) -> None:
    for step in range(first, last):
        optimizer.zero_grad()
        backward(model, step, 0)
        optimizer.step()


def test_an_aggregator_that_is_gone_is_one_line(deployment: Deployment) -> None:
    place = deployment.aggregator()
    job, model = deployment.job("job", 1, place), network()
    optimizer = ParameterServiceOptimizer(OPTIMIZERS["sgd"](model.parameters()), model, job=job(0))
    optimizer._client._locate_timeout_s = 1.0
    place.kill()
    backward(model, 0, 0)
    with pytest.raises(Unavailable, match="no aggregator has its master copy"):
        optimizer.step()
