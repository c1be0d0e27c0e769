"""The use of GPUs by dcgm-exporter. The server is the only fake: it answers by HTTP in the exporter's documented format."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.wrappers.gpu_activity.dcgm_meter import MOST_BYTES, DcgmMeter, utilisation
from tiresias.wrappers.gpu_activity.meters import MeterUnavailable

METRICS = """\
# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0", UUID="GPU-604ac76c"} 139
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-604ac76c",pci_bus_id="00000000:07:00.0",device="nvidia0",modelName="NVIDIA A100"} 42
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-11111111",device="nvidia1",modelName="NVIDIA A100",container=""} 0
DCGM_FI_DEV_GPU_UTIL{gpu="2",UUID="GPU-22222222",device="nvidia2"} 100
DCGM_FI_DEV_GPU_UTIL{gpu="3",UUID="GPU-33333333",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7"} 9
"""
Serve = Callable[[bytes, int], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[HTTPServer] = []

    def start(body: bytes, status: int = 200) -> int:
        class Exporter(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status if self.path == "/metrics" else 404)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        servers.append(HTTPServer(("127.0.0.1", 0), Exporter))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return servers[-1].server_port

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"SLURM_JOB_GPUS": "0"}, [0.42]),
        ({"SLURM_JOB_GPUS": "1-2", "CUDA_VISIBLE_DEVICES": "0,1"}, [0.0, 1.0]),
        ({"SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": "GPU-22222222,GPU-604ac76c"}, [1.0, 0.42]),
    ],
)
def test_the_utilisation_of_the_jobs_gpus(serve: Serve, env: dict[str, str], expected: list[float]) -> None:
    meter = DcgmMeter(env, serve(METRICS.encode(), 200))
    assert (meter.source, meter.use()) == ("dcgm", expected)


@pytest.mark.parametrize("gpus", ["", "3", "4", "0,4", "x", "0-", "9999"])
def test_gpus_that_it_does_not_list(serve: Serve, gpus: str) -> None:
    with pytest.raises(MeterUnavailable):
        DcgmMeter({"SLURM_JOB_GPUS": gpus}, serve(METRICS.encode(), 200))


@pytest.mark.parametrize(
    ("body", "status"),
    [(METRICS.encode(), 500), (b"", 200), (b"\xff\0<html>", 200), (METRICS.encode() + b"#" * MOST_BYTES, 200)],
)
def test_another_program_on_the_port(serve: Serve, body: bytes, status: int) -> None:
    with pytest.raises(MeterUnavailable):
        DcgmMeter({"SLURM_JOB_GPUS": "0"}, serve(body, status))


def test_no_exporter(serve: Serve) -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as closed:
        port = closed.server_port
    with pytest.raises(MeterUnavailable):
        DcgmMeter({"SLURM_JOB_GPUS": "0"}, port)


@given(
    st.lists(
        st.sampled_from([*METRICS.splitlines(), 'DCGM_FI_DEV_GPU_UTIL{gpu="0"} ', "-1", "1e999", "nan", '{gpu="', "}"])
    )
)
def test_any_text_gives_shares(parts: list[str]) -> None:
    assert all(0.0 <= use <= 1.0 for use in utilisation("".join(parts)).values())
    assert all(0.0 <= use <= 1.0 for use in utilisation("\n".join(parts)).values())
