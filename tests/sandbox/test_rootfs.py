"""Trees and layers are whole or absent; what is missing on the machine is reported in one line."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tiresias.errors import TiresiasError, Unavailable, UsageError
from tiresias.sandbox import atomic, host, pyslurm_layer, rootfs

BUILD = "from tiresias.sandbox import rootfs; rootfs.ensure('bookworm')"


@pytest.fixture
def rights() -> None:
    """Skips the test for a user who may not remove what a build leaves."""
    try:
        host.user_namespace()
    except TiresiasError as error:
        pytest.skip(str(error))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIRESIAS_SANDBOX_HOME", str(tmp_path))
    return tmp_path


def wait_for(done: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def processes_about(path: Path) -> list[str]:
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            command = (proc / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            inside = str(path) in command or str((proc / "root").readlink()).startswith(str(path))
        except OSError:
            continue
        if inside:
            found.append(f"{proc.name} {command}")
    return found


def temporary_files() -> set[Path]:
    """Return what mmdebstrap has left where it usually has its temporary files."""
    return set(Path(tempfile.gettempdir()).glob("mmdebstrap.*"))


@pytest.mark.sandbox
@pytest.mark.slow
def test_kill_9_of_a_build_leaves_nothing_that_counts(home: Path) -> None:
    """No process, no mount, no tree, no temporary file; and the next build removes the rubble."""
    elsewhere = temporary_files()
    builder = subprocess.Popen([sys.executable, "-c", BUILD])
    wait_for(lambda: any(home.glob(f"rootfs/*{atomic.MARK}/var/lib/dpkg")), "mmdebstrap does not begin")
    assert processes_about(home / "rootfs")  # the search finds what is there
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    wait_for(lambda: not processes_about(home / "rootfs"), f"left: {processes_about(home / 'rootfs')}", 10)
    assert str(home) not in Path("/proc/self/mounts").read_text()
    assert temporary_files() <= elsewhere
    scratch, rubble = sorted(home.glob(f"rootfs/*{atomic.MARK}"))
    assert (scratch, any(scratch.iterdir())) == (atomic.scratch_of(rubble), True)
    assert not rubble.with_name(rubble.name.removesuffix(atomic.MARK)).exists()
    atomic.remove_leftovers(home / "rootfs")
    assert [path.suffix for path in (home / "rootfs").iterdir() if path.is_dir()] == []


@pytest.mark.sandbox
def test_no_network_is_reported_and_leaves_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIRESIAS_DEBIAN_MIRROR", "http://127.0.0.1:9/debian")
    with pytest.raises(
        Unavailable, match=r"no network to the Debian mirror http://127.0.0.1:9/debian: .* \(log: "
    ) as error:
        rootfs.ensure("bookworm")
    assert "\n" not in str(error.value)
    assert [path for path in (home / "rootfs").iterdir() if path.is_dir()] == []


@pytest.mark.sandbox
def test_a_full_disk_is_reported_before_the_build(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootfs, "BUILD_SPACE_MB", 10**9)
    with pytest.raises(Unavailable, match=r"disk full: .* has \d+ MB free and a build needs 1000000000 MB"):
        rootfs.ensure("bookworm")


def test_a_disk_that_fills_up_during_the_build_is_reported(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("I: extracting archives...\nE: tar: ./usr/bin/x: Cannot write: No space left on device\n")
    assert str(rootfs._explain("forky", log)).startswith("disk full while building forky")


def test_missing_tools_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "find_tool", lambda name: None if name in ("bwrap", "ip") else name)
    with pytest.raises(TiresiasError, match="apt-get install -y bubblewrap iproute2"):
        host.require_tools()


def test_neither_root_nor_subordinate_ids(tmp_path: Path) -> None:
    """As a user without a line in /etc/subuid: one line names both ways out."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    program = (
        "from tiresias.errors import TiresiasError\nfrom tiresias.sandbox import host\n"
        "try: host.user_namespace()\nexcept TiresiasError as e: print(e)"
    )
    source = Path(host.__file__).resolve().parents[1] / "src"
    words = ["setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups", "/usr/bin/python3", "-c", program]
    done = subprocess.run(
        words, env={"PYTHONPATH": str(source), "PATH": host.SYSTEM_PATH}, capture_output=True, text=True, check=False
    )
    if any(sign in done.stderr for sign in ("Permission denied", "No such file", "No module named 'tiresias")):
        pytest.skip("the checkout is not readable for others")
    assert done.stdout.startswith("the sandbox needs root, or user namespaces with subordinate ids"), done.stderr
    assert done.stdout.count("\n") == 1


def test_unknown_suite() -> None:
    with pytest.raises(UsageError, match="unknown suite 'sid'; available: forky, trixie, bookworm"):
        rootfs.ensure("sid")


def test_the_key_names_all_that_shapes_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    key = rootfs._key("forky", ("a", "b"))
    assert key == rootfs._key("forky", ("a", "b"))
    assert len({key, rootfs._key("trixie", ("a", "b")), rootfs._key("forky", ("a",))}) == 3
    monkeypatch.setattr(rootfs, "RECIPE", rootfs.RECIPE + 1)
    assert rootfs._key("forky", ("a", "b")) != key


# -- pyslurm ----------------------------------------------------------------------------------------------------------


def tree_with(tmp_path: Path, suite: str, slurm: str) -> rootfs.Rootfs:
    """A stand-in for a tree: only dpkg's list of what is installed."""
    status = tmp_path / "tree/var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    status.write_text(
        f"Package: slurmctld\nStatus: install ok installed\nVersion: {slurm}-2\n\nPackage: python3\nVersion: 3.14.3-1\n"
    )
    (tmp_path / "tree/usr/lib/x86_64-linux-gnu/slurm-wlm").mkdir(parents=True)
    return rootfs.Rootfs(suite, tmp_path / "tree")


def test_a_suite_that_moved_on_is_reported_and_does_without(home: Path, tmp_path: Path) -> None:
    reported: list[str] = []
    assert pyslurm_layer.ensure(tree_with(tmp_path, "forky", "26.11.1"), report=reported.append) is None
    assert reported == ["forky has Slurm 26.11.1 now; pyslurm 25.11.2 fits 26.05 only: using the command back end"]


def test_suites_without_a_bridge_report_nothing(home: Path, tmp_path: Path) -> None:
    reported: list[str] = []
    assert pyslurm_layer.ensure(tree_with(tmp_path, "trixie", "24.11.5"), report=reported.append) is None
    assert reported == []


@pytest.mark.usefixtures("rights")
def test_an_index_that_is_down_is_reported_and_tried_again_next_time(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    tree = tree_with(tmp_path, "forky", "26.05.5")
    for _ in range(2):
        reported: list[str] = []
        assert pyslurm_layer.ensure(tree, report=reported.append) is None
        assert "cannot be downloaded" in reported[-1]
        assert reported[-1].endswith("using the command back end")
    assert [path for path in (home / "pyslurm").iterdir() if path.is_dir()] == []


def test_versions_are_read_from_the_tree(tmp_path: Path) -> None:
    tree = tree_with(tmp_path, "forky", "26.05.5")
    assert (tree.slurm_version, tree.python_version, tree.package_version("nothing")) == ("26.05.5", "3.14.3", "")


# -- whole or absent ----------------------------------------------------------------------------------------------------


def _slow_build(final: Path, started: Path) -> None:
    def build(unfinished: Path) -> None:
        with started.open("a") as out:
            out.write("x")
        unfinished.mkdir()
        time.sleep(0.3)
        (unfinished / "done").touch()

    atomic.build_once(final, build)


@pytest.mark.usefixtures("rights")
def test_builders_at_once_build_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    builders = [context.Process(target=_slow_build, args=(tmp_path / "tree", tmp_path / "log")) for _ in range(4)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(30)
        assert builder.exitcode == 0
    assert (tmp_path / "log").read_text() == "x"
    assert (tmp_path / "tree/done").exists()


@pytest.mark.usefixtures("rights")
def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def fail(unfinished: Path) -> None:
        unfinished.mkdir()
        raise Unavailable("no network")

    with pytest.raises(Unavailable):
        atomic.build_once(tmp_path / "tree", fail)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


@pytest.mark.usefixtures("rights")
def test_rubble_of_other_recipes_goes_but_not_what_is_being_built(tmp_path: Path) -> None:
    dead, alive = tmp_path / f"old{atomic.MARK}", tmp_path / f"busy{atomic.MARK}"
    scratch = [atomic.scratch_of(dead), atomic.scratch_of(alive)]
    for folder in (dead, alive, *scratch):
        folder.mkdir()
    with atomic.exclusive(tmp_path / ".busy.lock"):
        atomic.build_once(tmp_path / "new", lambda unfinished: unfinished.mkdir())
        assert not dead.exists()
        assert alive.exists()
        assert [each.exists() for each in scratch] == [False, True]
