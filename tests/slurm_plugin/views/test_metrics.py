"""The metrics for Prometheus; alerts and dashboard use no others."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text_format

from tests.slurm_plugin.views.scrapes import TIRESIAS, fetch, once, served
from tiresias.protocol.status import Status
from tiresias.slurm_plugin.sockets.control_socket import ControlServer
from tiresias.slurm_plugin.views.metrics import metrics
from tiresias.slurm_plugin.views.service_metrics import service_metrics

USES = ("owned", "guaranteed", "opportunistic")
ETC = Path(__file__).parents[3] / "etc"


def values(families: Iterable[Metric]) -> dict[tuple[str, ...], float]:
    return {(one.name, *sorted(one.labels.values())): one.value for family in families for one in family.samples}


def test_jobs_and_gpus_are_counted(whole: dict[str, Any]) -> None:
    found = values(metrics(cast(Status, whole), whole["time"] + 5.0))
    assert found["tiresias_up",] == 1
    assert found["tiresias_status_age_seconds",] == 5
    running = [job for job in whole["jobs"] if job["nodes"]]
    for queue in "01":
        assert found["tiresias_jobs", queue, "running"] == sum(str(job["queue"]) == queue for job in running)
    use = {name: found["tiresias_gpus", name] for name in ("managed", "others", "free", "gone")}
    assert sum(use.values()) == 60
    assert use["managed"] == sum(job["gpus"] for job in running)
    assert (use["others"], use["gone"]) == (1, 4)
    assert found["tiresias_waiting_seconds", "longest"] == max(
        job["waited"] for job in whole["jobs"] if not job["nodes"]
    )
    assert found["tiresias_actions_total", "preempt"] == 2


def test_jobs_that_do_not_use_their_gpus(whole: dict[str, Any]) -> None:
    running = [job["id"] for job in whole["jobs"] if job["nodes"]][:2]
    jobs = [job | ({"gpu_use": "shown"} if job["id"] in running else {"gpu_use": "none"}) for job in whole["jobs"]]
    found = values(metrics(cast(Status, whole | {"jobs": jobs}), 0.0))
    gpus = sum(job["gpus"] for job in jobs if job["id"] in running)
    assert (found["tiresias_idle_jobs",], found["tiresias_idle_gpus",]) == (2, gpus)
    assert values(metrics(cast(Status, whole), 0.0))["tiresias_idle_gpus",] == 0


def lost_seconds(kind: str) -> tuple[str, ...]:
    return "tiresias_lost_gpu_seconds_total", *sorted(("gpu", kind))


def test_waits_and_losses_are_by_partition(whole: dict[str, Any]) -> None:
    found = values(metrics(cast(Status, whole), 0.0))
    assert found["tiresias_preemptions_total", "gpu"] == 4
    assert found["tiresias_waited_seconds_total", "gpu"] == 121
    lost = {kind: found[lost_seconds(kind)] for kind in ("saving", "restoring", "redone")}
    assert lost == {"saving": 8, "restoring": 16, "redone": 3}
    waiting = [job for job in whole["jobs"] if job["state"] == "WAITING"]
    for partition in {job["partition"] for job in waiting}:
        waits = [job["waited"] for job in waiting if job["partition"] == partition]
        assert found["tiresias_partition_waiting_jobs", partition] == len(waits)
        assert found["tiresias_partition_longest_wait_seconds", partition] == max(waits)


def test_accounts_are_named_where_it_is_asked_for(whole: dict[str, Any]) -> None:
    names = {"bio", "chem"}
    for by_account in (False, True):
        labels = {
            word
            for family in metrics(cast(Status, whole), 0.0, by_account)
            for one in family.samples
            for word in one.labels.values()
        }
        assert names & labels == (names if by_account else set())
    assert values(metrics(cast(Status, whole), 0.0, True))["tiresias_runs_total", "bio", "gpu"] == 7


def test_virtual_clusters_are_measured(whole: dict[str, Any]) -> None:
    found = values(metrics(cast(Status, whole), 0.0))
    keys = {use: ("tiresias_virtual_cluster_gpus", *sorted(("research", use))) for use in USES}
    uses = {use: found[key] for use, key in keys.items()}
    assert uses == {"owned": 24, "guaranteed": 22, "opportunistic": 16}
    assert found["tiresias_virtual_cluster_free_cells", "node", "prod-a"] == 2
    assert found["tiresias_virtual_cluster_fragmentation", "prod-a"] == 0.2
    assert found["tiresias_virtual_cluster_waiting_jobs", "prod-a"] == 1
    assert found["tiresias_virtual_cluster_longest_wait_seconds", "prod-a"] == 42
    assert found["tiresias_virtual_cluster_wait_limit_seconds", "prod-a"] == 150
    assert found["tiresias_virtual_cluster_starts_total", "broken", "research"] == 1
    assert found["tiresias_virtual_cluster_starts_total", "kept", "prod-a"] == 31
    partly = [
        node
        for node in whole["nodes"]
        if 0 < sum(gpus for _, gpus in node["allocations"]) + node["other_gpus"] < node["gpus"]
    ]
    assert found["tiresias_fragmentation",] == len(partly) / 15


def test_the_slowness_of_nodes_is_measured(whole: dict[str, Any]) -> None:
    """Of the nodes of which it is known."""
    first, second, *others = whole["nodes"]
    nodes = [first | {"slowness": 1.52, "slow": True}, second | {"slowness": 0.96}, *others]
    found = values(metrics(cast(Status, whole | {"nodes": nodes}), 0.0))
    assert {key[1]: value for key, value in found.items() if key[0] == "tiresias_node_slowness"} == {
        first["name"]: 1.52,
        second["name"]: 0.96,
    }
    assert found["tiresias_slow_nodes",] == 1.0


def test_without_virtual_clusters_no_metric_has_one(whole: dict[str, Any]) -> None:
    found = values(metrics(cast(Status, whole | {"virtual_clusters": []}), 0.0))
    assert not [name for name in found if name[0].startswith("tiresias_virtual_cluster")]


def test_no_name_of_a_user_or_a_job_gets_out(whole: dict[str, Any]) -> None:
    names = {str(job[key]) for job in whole["jobs"] for key in ("user", "name", "id")}
    labels = {
        label for family in metrics(cast(Status, whole), 0.0) for one in family.samples for label in one.labels.values()
    }
    assert not names & labels


def test_without_a_controller_it_is_reported_as_down(tmp_path: Path) -> None:
    done = subprocess.run(
        [*TIRESIAS, "--socket", str(tmp_path / "none")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert values(text_format(done.stdout)) == {("tiresias_up",): 0.0}


def test_the_client_chooses_the_format(whole: dict[str, Any], tmp_path: Path) -> None:
    with served(whole, tmp_path) as address:
        kind, plain = fetch(address, "text/plain;version=0.0.4")
        assert kind.startswith("text/plain")
        assert fetch(address, "*/*")[0].startswith("text/plain")
        kind, rich = fetch(address, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
        assert kind.startswith("application/openmetrics-text")
    changing = {("tiresias_status_age_seconds",)}
    parsed: Iterable[Metric] = openmetrics(rich)  # type: ignore[no-untyped-call]
    found = [values(text_format(plain)), values(parsed)]
    plain_values, rich_values = ({name: one for name, one in each.items() if name not in changing} for each in found)
    assert plain_values == rich_values
    assert plain_values["tiresias_up",] == 1.0


def test_the_printed_format_has_no_type_of_openmetrics(whole: dict[str, Any], tmp_path: Path) -> None:
    """node_exporter's textfile collector and promtool refuse a file with one, such as info."""
    with ControlServer(tmp_path / "control.sock", lambda request, peer: whole):
        text = once(tmp_path)
    types = {line.split()[3] for line in text.splitlines() if line.startswith("# TYPE ")}
    assert types <= {"counter", "gauge", "histogram", "summary", "untyped"}
    assert "# EOF" not in text


def test_without_the_library_it_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "prometheus_client.py").write_text("raise ModuleNotFoundError('hidden', name='prometheus_client')\n")
    hidden = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(TIRESIAS, capture_output=True, text=True, timeout=60, check=False, env=hidden)
    assert done.returncode == 1
    assert done.stderr.startswith("tiresias: tiresias metrics needs the Python package prometheus_client: pip install")
    assert len(done.stderr.splitlines()) == 1
    helped = subprocess.run([*TIRESIAS, "--help"], capture_output=True, timeout=60, check=False, env=hidden)
    assert helped.returncode == 0


def test_a_bad_address_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run([*TIRESIAS, "--listen", "9817"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == "tiresias: --listen '9817': give an address and a port, such as 127.0.0.1:9817\n"


@pytest.mark.parametrize("file", ["tiresias-alerts.yml", "tiresias-dashboard.json"])
def test_only_what_is_served_is_asked_for(file: str, whole: dict[str, Any]) -> None:
    text = (ETC / file).read_text()
    expressions = re.findall(r"expr: (.*)", text)
    if file.endswith(".json"):
        expressions = [target["expr"] for panel in json.loads(text)["panels"] for target in panel["targets"]]
    asked = {name for each in expressions for name in re.findall(r"tiresias_\w+", each)}
    families = [*metrics(cast(Status, whole), 0.0), *service_metrics(None, 0.0)]
    served = {one.name for family in families for one in family.samples}
    assert asked
    assert asked <= served
    for name, label, value in re.findall(r'(tiresias_\w+)\{(\w+)="(\w+)"\}', " ".join(expressions)):
        samples = [one for family in metrics(cast(Status, whole), 0.0) for one in family.samples if one.name == name]
        assert any(one.labels.get(label) == value for one in samples), (name, label, value)
