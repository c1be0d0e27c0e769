"""Elastic jobs on a real Slurm: each start gives them the GPUs that are left, under the same job id."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.slurm_plugin.controller.centre import TRAIN, Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]


POLICY = {"sizing": "minimum_first", "preemption_cost": 1.0, "cooldown": 0.0}
OTHERS = [pytest.param(f"commands@{suite}", marks=pytest.mark.long) for suite in ("trixie", "bookworm")]


@pytest.fixture(params=["pyslurm@forky", *OTHERS])
def elastic(request: pytest.FixtureRequest, centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    """Four nodes with four GPUs each."""
    backend, suite = request.param.split("@")
    centre = centre_of(suite)
    centre.restart(backend=backend, policy=POLICY, preemption={"rank_timeout": 2.0}, placement={"trial": "anywhere"})
    yield centre
    centre.stop("KILL")
    centre.clean()


def sizes(centre: Centre, job: str) -> list[int]:
    """Return the GPUs of each run of the job, as the journal has them."""
    query = f"select gpus from run join job using (key) where id = '{job}' order by restart"
    return [row[0] for row in centre.query_journal(query)]


def wait_for_size(centre: Centre, job: str, gpus: int) -> None:
    centre.wait_until(lambda: sizes(centre, job)[-1:] == [gpus] and centre.state(job) == "RUNNING", f"not {gpus}", job)


def test_a_job_gets_what_is_left_and_gives_it_back(elastic: Centre) -> None:
    job = elastic.train("--elastic=2-16:2", "--ntasks=4", "--gpus-per-task=1", gpus=0, seconds=300)
    wait_for_size(elastic, job, 16)
    assert elastic.show(job)["NumTasks"] == "16"
    elastic.wait_until_preemptable(job)
    other = elastic.train(gpus=6, seconds=15, user="bob")
    elastic.wait_for_state(other, "RUNNING")
    wait_for_size(elastic, job, 10)
    elastic.wait_until_preemptable(job)
    elastic.wait_for_state(other, "COMPLETED")
    wait_for_size(elastic, job, 16)
    assert elastic.state(job) == "RUNNING"
    grew, shrank = elastic.reasons(job, "resize")
    assert grew.startswith("from 10 to 16 GPUs on idle GPUs")
    assert shrank.startswith("from 16 to 10 GPUs ")
    assert elastic.reasons(job, "preempt") == [], "it went on at once"


def test_nodes_change_where_gpus_are_stated_for_each_node(elastic: Centre) -> None:
    other = elastic.train("--nodes=3", gpus=12, seconds=300, user="bob")
    elastic.wait_for_state(other, "RUNNING")
    request = ("--nodes=2", "--ntasks-per-node=2", "--gpus-per-node=4", "--cpus-per-task=2")
    job = elastic.train("--elastic=4-16", *request, gpus=0, seconds=300)
    wait_for_size(elastic, job, 4)
    assert (elastic.show(job)["NumNodes"], elastic.show(job)["NumTasks"]) == ("1", "2")
    elastic.wait_until_preemptable(job)
    elastic.cancel(other, user="bob")
    wait_for_size(elastic, job, 16)
    assert (elastic.show(job)["NumNodes"], elastic.show(job)["NumTasks"], elastic.show(job)["NumCPUs"]) == (
        "4",
        "8",
        "16",
    )


def test_a_program_that_ignores_its_size_goes_back_to_its_own(elastic: Centre) -> None:
    program = f"exec srun -n 2 --gpus-per-task=1 python3 {TRAIN} 60 ranks"
    job = elastic.submit("--elastic=1-8", "--ntasks=2", "--gpus-per-task=1", gpus=0, by="tsbatch", command=program)
    elastic.wait_until(lambda: sizes(elastic, job)[-2:] == [8, 2], "it does not go back to 2 GPUs", job)
    elastic.wait_until_preemptable(job)
    assert elastic.show(job)["NumTasks"] == "2"
    words = "its program ignores the number of GPUs: 2 ranks registered with 8 GPUs in place of 8"
    assert elastic.query_journal(f"select rigid from job where id = '{job}'") == [("other_ranks: 2 8 8",)]
    assert elastic.explain(job)["job"]["rigid"] == words
    assert [line.strip() for line in elastic.command("explain", job).stdout.splitlines() if words in line]
    assert elastic.reasons(job, "resize")[0] == f"back to the size that it requests: {words}"
    begun = [int(step) for step in re.findall(r"from step (\d+)", elastic.output(job))]
    assert begun[0] == 0 < begun[-1], "it goes on from its checkpoint"


REFUSES = """
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
	local tasks = job_desc.num_tasks
	if tasks ~= nil and tasks < slurm.NO_VAL and tasks > 2 then return slurm.ERROR end
	return slurm.SUCCESS
end

return slurm.SUCCESS
"""


@pytest.fixture
def site_plugin(elastic: Centre) -> Iterator[Path]:
    """The job_submit plugin of the cluster, which gets its own text back."""
    plugin = elastic.cluster.folder / "etc/job_submit.lua"
    text = plugin.read_text()
    yield plugin
    plugin.write_text(text)


def test_a_size_that_slurm_refuses_is_put_back(elastic: Centre, site_plugin: Path) -> None:
    """The site's own plugin refuses the update of a job that has saved and been requeued to get more GPUs."""
    other = elastic.submit(gpus=14, user="bob")
    elastic.wait_for_state(other, "RUNNING")
    job = elastic.train("--elastic=1-16", "--ntasks=2", "--gpus-per-task=1", gpus=0, seconds=300)
    wait_for_size(elastic, job, 2)
    elastic.wait_until_preemptable(job)
    site_plugin.write_text(site_plugin.read_text().removesuffix("return slurm.SUCCESS\n") + REFUSES)
    elastic.cancel(other, user="bob")
    elastic.wait_until(lambda: sizes(elastic, job) == [2, 2], "it has no second run with 2 GPUs", job)
    elastic.wait_until_preemptable(job)
    assert elastic.show(job)["NumTasks"] == "2"
    assert elastic.explain(job)["job"]["rigid"].startswith("Slurm does not accept it with 16 GPUs: ")
    begun = [int(step) for step in re.findall(r"from step (\d+)", elastic.output(job))]
    assert begun[0] == 0 < begun[-1], "it goes on from its checkpoint"


def numbers(centre: Centre, job: str) -> list[tuple[int, int]]:
    """Return the workers and the servers of each run of the job, as the journal has them."""
    query = f"select gpus, servers from run join job using (key) where id = '{job}' order by restart"
    return [(gpus, servers) for gpus, servers in centre.query_journal(query)]


def test_workers_and_servers_change_together(elastic: Centre) -> None:
    """Servers hold CPUs besides those of the tasks, so that a step of each runs at the same time."""
    loop = "echo {} $SLURM_PROCID of $TIRESIAS_SERVERS gpu=$CUDA_VISIBLE_DEVICES; while :; do sleep 1; done"
    step = "srun --exact --cpus-per-task=2 {} sh -c 'trap : USR2; {}' &"
    workers = step.format("", loop.format("worker"))
    servers = step.format("--gres=none --ntasks=$TIRESIAS_SERVERS", loop.format("server"))
    request = ("--elastic=1-8", "--servers=1-4", "--ntasks=2", "--gpus-per-task=1", "--cpus-per-task=2")
    program = f"{workers} {servers} exec python3 {TRAIN} 300"
    job = elastic.submit(*request, "--job-name=served", gpus=0, by="tsbatch", command=program)
    other, expected = "", Counter[tuple[str, str, str, bool]]()
    for gpus, count, cpus in ((8, 4, 24), (4, 2, 12), (8, 4, 24)):
        wait_for_size(elastic, job, gpus)
        record = elastic.show(job)
        assert (record["NumTasks"], record["NumCPUs"]) == (str(gpus), str(cpus)), "with the CPUs of the servers"
        expected.update(("worker", str(rank), str(count), True) for rank in range(gpus))
        expected.update(("server", str(rank), str(count), False) for rank in range(count))
        elastic.wait_until(lambda: started(elastic, job) == expected, "a process is missing", job)
        elastic.wait_until_preemptable(job)
        if other:
            elastic.cancel(other, user="bob")
        other = "" if other else elastic.submit(gpus=12, user="bob")
    assert numbers(elastic, job) == [(8, 4), (4, 2), (8, 4)]
    assert elastic.explain(job)["job"]["servers"] == 4


def started(centre: Centre, job: str) -> Counter[tuple[str, str, str, bool]]:
    """Return the processes of all runs: role, rank, number of servers, and whether it has a GPU."""
    found = re.findall(r"(worker|server) (\d) of (\d) gpu=(\S*)", centre.output(job))
    return Counter((role, rank, servers, bool(gpu)) for role, rank, servers, gpu in found)


@pytest.fixture
def limited(centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    """A cluster with slurmdbd and a QOS of at most four GPUs a job, whose jobs Slurm does not refuse for that."""
    centre = centre_of("forky", accounting=True)
    centre.cluster.run(["sacctmgr", "-i", "add", "qos", "fourgpus", "set", "MaxTRESPerJob=gres/gpu=4"], check=False)
    centre.cluster.run(["sacctmgr", "-i", "modify", "user", "alice,bob", "set", "qos+=fourgpus"])
    centre.restart(backend="commands", policy=POLICY, placement={"trial": "anywhere"})
    yield centre
    centre.stop("KILL")
    centre.clean()


def test_no_size_is_above_a_limit_of_slurm(limited: Centre) -> None:
    free = ("--elastic=1-16", "--ntasks=2", "--gpus-per-task=1")
    job = limited.train(*free, "--qos=fourgpus", gpus=0, seconds=300)
    wait_for_size(limited, job, 4)
    limited.wait_until_preemptable(job)
    limited.wait_for_cycles(6)
    assert sizes(limited, job) == [4], "it does not grow further although twelve GPUs are free"


def test_a_waiting_job_is_given_another_size_by_its_owner(elastic: Centre) -> None:
    other = elastic.submit(gpus=16, user="bob")
    elastic.wait_for_state(other, "RUNNING")
    job = elastic.submit(
        "--elastic=4-8:4",
        "--job-name=waits",
        "--ntasks=4",
        "--gpus-per-task=1",
        gpus=0,
        by="tsbatch",
        command="sleep 300",
    )
    elastic.wait_until(lambda: elastic.published(job).get("elastic"), "it is not elastic", job)
    elastic.scontrol("update", f"JobId={job}", "NumTasks=6", user="alice")
    elastic.wait_until(lambda: elastic.published(job).get("gpus") == 6, "the request is not read again", job)
    elastic.cancel(other, user="bob")
    wait_for_size(elastic, job, 6)
    assert elastic.show(job)["NumTasks"] == "6"
