"""Programs that stay as they are, with their large blocks in a region: the same bytes as without."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.remote_memory.conftest import StartDonor
from tests.services.remote_memory.donors import until
from tests.services.remote_memory.program_region.conftest import PROGRAMS, ROOT, TIMEOUT_S, Compile, Launch, env

NATIVE = ROOT / "services/remote_memory/native"
PAGES_IN = re.compile(r"(\d+) pages in \((\d+) from donors, (\d+) from the disk\), (\d+) out; [\d.]+ s of waits")


def pages_in(line: str) -> tuple[int, int]:
    """Return the pages that came in, and those of donors, by a program's last line."""
    found = PAGES_IN.search(line)
    assert found, line
    return int(found[1]), int(found[2])


def plain(*program: object) -> str:
    words = [str(word) for word in program]
    return subprocess.run(
        words, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, env=env(), cwd=ROOT, check=True
    ).stdout


def test_random_operations_of_threads(launch: Launch, compiled: Compile) -> None:
    launch.configure(least_kib=64)
    printed = launch.run(compiled("blocks"), 4, 150, 1).split()
    assert printed[0] == "same"
    assert int(printed[1]) > 50, "blocks in the region"
    assert int(printed[2]) > 20, "mappings in the region"
    assert pages_in(launch.line)[0] > 100


@pytest.mark.parametrize("seed", [1, 2])
def test_the_page_map_against_an_array(compiled: Compile, seed: int) -> None:
    sources = [str(NATIVE / name) for name in ("page_map.c", "system.c")]
    options = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-D_GNU_SOURCE", "-g", f"-I{NATIVE}")
    assert plain(compiled("page_map", *options, *sources), 3000, seed) == "same\n"


@pytest.mark.long
def test_many_random_operations(launch: Launch, compiled: Compile) -> None:
    launch.configure(least_kib=64)
    for seed in range(2, 6):
        assert launch.run(compiled("blocks"), 8, 400, seed).startswith("same")


def test_a_full_region_leaves_blocks_to_local_memory(launch: Launch, compiled: Compile) -> None:
    launch.configure(size_mib=3, least_kib=64)
    assert launch.run(compiled("blocks"), 2, 200, 3).startswith("same")


def test_a_program_without_privileges_has_blocks_and_no_mappings(unprivileged: Launch, compiled: Compile) -> None:
    unprivileged.configure(least_kib=64)
    printed = unprivileged.run(compiled("blocks"), 2, 100, 4).split()
    assert int(printed[1]) > 20
    assert int(printed[2]) == 0


def test_the_functions_of_the_header(launch: Launch, compiled: Compile, native: Path) -> None:
    program = compiled("header", f"-I{NATIVE}", f"-L{native}", f"-Wl,-rpath,{native}", "-ltiresias_remem")
    done = subprocess.run(
        [program, launch.file],
        capture_output=True,
        text=True,
        timeout=60,
        env=env(TIRESIAS_REMEM_PYTHON=sys.executable),
    )
    assert done.returncode == 0, done.stderr
    assert '"pages_in"' in done.stdout
    assert pages_in(done.stderr)
    assert launch.run(program, launch.file).startswith("{"), "under the preloaded library there is one region, too"


def test_numpy_has_the_same_result(launch: Launch, start_donor: StartDonor) -> None:
    launch.use(start_donor().address)
    words = (sys.executable, PROGRAMS / "arrays.py", "passes")
    assert launch.run(*words) == plain(*words)
    found, from_donors = pages_in(launch.line)
    assert found > 2048, "more than the arrays came back"
    assert from_donors > 0


def test_a_torch_step_has_the_same_result(launch: Launch) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    launch.configure(size_mib=256, resident_mib=24)
    words = (sys.executable, PROGRAMS / "step.py")
    assert launch.run(*words) == plain(*words)
    assert pages_in(launch.line)[0] > 2048


@pytest.mark.parametrize("privileged", [True, False])
def test_transfers_reach_pages_that_are_not_resident(
    launch: Launch, privileged: bool, request: pytest.FixtureRequest
) -> None:
    found = launch if privileged else request.getfixturevalue("unprivileged")
    assert found.run(sys.executable, PROGRAMS / "transfers.py", launch.folder, 5) == "same\n"
    assert pages_in(found.line)[0] > 1280


@pytest.mark.parametrize(
    ("what", "regions", "printed"),
    [
        ("allocate", 1, "code 0\n"),
        ("touch", 1, f"signal {signal.SIGSEGV.value}\n"),
        ("exec", 1, "code 10\n"),  # the one place is taken: the executed program has local memory
        ("exec", 2, "code 20\n"),
    ],
)
def test_children(launch: Launch, compiled: Compile, what: str, regions: int, printed: str) -> None:
    launch.configure(regions=regions)
    assert launch.run(compiled("children"), what) == printed


def test_a_thread_that_is_cancelled_frees_its_block(launch: Launch, compiled: Compile) -> None:
    assert launch.run(compiled("children"), "cancel") == "done\n"


def test_operations_on_parts_of_mappings(launch: Launch, compiled: Compile) -> None:
    assert launch.run(compiled("children"), "fixed") == "done\n"


def test_a_program_that_closes_the_descriptors_ends(launch: Launch, compiled: Compile) -> None:
    done = launch.attempt(compiled("children"), "descriptors")
    assert done.returncode == -signal.SIGBUS, done.stderr
    assert "has closed the descriptors of its region, and ends" in done.stderr


def test_helper_programs_of_a_script_have_no_region(launch: Launch) -> None:
    script = f"ls / > {launch.folder}/list; sort {launch.folder}/list | tail -1; echo $LD_PRELOAD | wc -w"
    launch.run("sh", "-c", script, PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin")
    assert launch.line == ""


def test_a_killed_handler_ends_the_program(launch: Launch) -> None:
    done = launch.attempt(sys.executable, PROGRAMS / "arrays.py", "kill handler")
    assert done.returncode == -signal.SIGBUS, (done.stdout, done.stderr)
    assert done.stdout == ""


def test_the_handler_ends_with_a_killed_program(launch: Launch) -> None:
    done = launch.attempt(sys.executable, PROGRAMS / "arrays.py", "kill program")
    assert done.returncode == -signal.SIGKILL
    handler = Path("/proc", done.stdout.strip())
    until(lambda: not handler.exists() or "State:\tZ" in (handler / "status").read_text(), "the handler has ended")


def test_a_signal_to_the_program_does_not_end_its_handler(launch: Launch) -> None:
    assert launch.run(sys.executable, PROGRAMS / "arrays.py", "terminate handler") == plain(
        sys.executable, PROGRAMS / "arrays.py"
    )


def test_a_donor_is_killed_in_the_middle(launch: Launch, start_donor: StartDonor) -> None:
    donor = start_donor()
    launch.use(donor.address)
    words = (sys.executable, PROGRAMS / "arrays.py")
    with subprocess.Popen(
        launch.command(*words, "wait"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env()
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "half\n"
        donor.kill()
        printed, _ = process.communicate("\n", TIMEOUT_S)
    assert process.returncode == 0
    assert printed == plain(*words)


@pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed (Debian: redis-server)")
def test_redis_keeps_its_data(launch: Launch, tmp_path: Path) -> None:
    launch.configure(size_mib=256, resident_mib=8)
    socket = tmp_path / "redis.sock"
    server = launch.command("redis-server", "--port", 0, "--unixsocket", socket, "--save", "", "--dir", tmp_path)
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(server, stdout=log, stderr=log, cwd=ROOT, env=env()) as process,
    ):
        try:
            until(lambda: socket.exists() or process.poll() is not None, "redis starts")
            assert plain(sys.executable, PROGRAMS / "redis_values.py", socket) == "same\n"
        finally:
            process.kill() if process.poll() is None and not socket.exists() else process.terminate()
    assert pages_in((tmp_path / "log").read_text())[0] > 1000
