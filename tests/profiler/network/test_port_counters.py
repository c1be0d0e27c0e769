"""PortCounters counters, from trees that look like /sys/class/infiniband and from some that only pretend to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.profiler.network import port_counters
from tiresias.profiler.network.port_counters import Counter, PortCounters, compare, read, received, sent

WORDS_OUT, WORDS_IN = "counters/port_xmit_data", "counters/port_rcv_data"
OLD_OUT = "counters_ext/port_xmit_data_64"
OWN_OUT = "hw_counters/tx_bytes"


def put(root: Path, name: str, value: object, device: str = "mlx5_0", port: str = "1") -> Path:
    """Devices are links in the kernel's tree, too."""
    real = root.parent / "devices" / device
    file = real / "ports" / port / name
    file.parent.mkdir(parents=True, exist_ok=True)
    root.mkdir(exist_ok=True)
    if not (root / device).is_symlink():
        (root / device).symlink_to(os.path.relpath(real, root))
    file.write_text(f"{value}\n")
    return file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "infiniband"


def one(value: int, unit: int = 4) -> dict[tuple[str, str], PortCounters]:
    return {("mlx5_0", "1"): PortCounters(Counter(value, unit), Counter(7, unit))}


def test_words_are_four_bytes(root: Path) -> None:
    put(root, WORDS_OUT, 1000), put(root, WORDS_IN, 10)
    before = read(root)
    put(root, WORDS_OUT, 3500), put(root, WORDS_IN, 11)
    assert (sent(before, read(root)), received(before, read(root))) == (10_000, 4)


def test_all_ports_of_all_devices(root: Path) -> None:
    places = [("mlx5_0", "1"), ("mlx5_0", "2"), ("mlx5_3", "1")]
    for device, port in places:
        put(root, WORDS_OUT, 5, device, port)
    before = read(root)
    assert list(before) == places
    for number, (device, port) in enumerate(places):
        put(root, WORDS_OUT, 5 + 10**number, device, port)
    assert sent(before, read(root)) == 4 * 111
    assert received(before, read(root)) is None, "no port counts that"


def test_wide_counters_come_before_narrow_ones(root: Path) -> None:
    put(root, OLD_OUT, 1 << 40), put(root, WORDS_OUT, 2**32 - 1)
    assert read(root)["mlx5_0", "1"].sent == Counter(1 << 40, 4)


def test_counters_of_a_provider_s_own_are_bytes(root: Path) -> None:
    put(root, OWN_OUT, 100, "rdmap0s6")
    before = read(root)
    put(root, OWN_OUT, 164, "rdmap0s6")
    assert sent(before, read(root)) == 64


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        (2**32 - 10, 5, 15 * 4),  # round at 32 bits
        (2**64 - 10, 5, 15 * 4),  # and at 64
        (2**31 + 2**30, 0, 2**30 * 4),
        (2**30, 10, None),  # reset
        (2**40, 10, None),
        (100, 2**32 - 1, None),  # as far as it counts
        (7, 7, 0),
    ],
)
def test_counters_that_go_back(before: int, after: int, moved: int | None) -> None:
    assert sent(one(before), one(after)) == moved


@given(st.integers(0, 2**64 - 2), st.integers(0, 2**31), st.sampled_from([2**32, 2**64]), st.sampled_from([1, 4]))
def test_whatever_is_sent_is_counted(before: int, moved: int, limit: int, unit: int) -> None:
    before %= limit
    after = (before + moved) % limit
    if after in (2**32 - 1, 2**64 - 1) or (limit == 2**64 and before < 2**32):
        return
    assert sent(one(before, unit), one(after, unit)) == moved * unit


def test_ports_that_come_go_or_stop_to_count(root: Path) -> None:
    put(root, WORDS_OUT, 5, "a"), put(root, WORDS_OUT, 5, "b")
    both = read(root)
    only = {key: port for key, port in both.items() if key[0] == "a"}
    assert sent(both, only) == sent(only, both) == 0, "of those that were there all the time"
    silent = {key: PortCounters(None, Counter(1, 4)) for key in both}
    assert sent(both, silent) is None
    assert sent(both, {}) is None
    assert sent(one(1, 1), one(2, 4)) is None, "another counter"


def test_no_hardware(tmp_path: Path) -> None:
    assert read(tmp_path / "nothing") == {}
    (tmp_path / "file").write_text("")
    assert read(tmp_path / "file") == {}


@pytest.mark.parametrize("text", [
    "", "\n", "N/A", "-5", "1e9", "0x10", "١٢", "1 2", "9" * 21, "9" * 5000, str(2**64), "12\n13", "\0" * 8, "1_000",
    "0" * 40 + "5",
])  # fmt: skip
def test_what_is_no_number_does_not_count(root: Path, text: str) -> None:
    put(root, WORDS_OUT, 5)
    put(root, WORDS_OUT, text, "mlx5_1").write_text(text)
    assert list(read(root)) == [("mlx5_0", "1")]


def test_trees_that_are_traps(root: Path) -> None:
    put(root, WORDS_OUT, 5)
    (root / "loop").symlink_to("loop")
    (root / "round").symlink_to(".")
    (root / "gone").symlink_to("nowhere")
    ports = root.parent / "devices" / "mlx5_0" / "ports"
    (ports / "2").symlink_to("2")
    (ports / "3").mkdir()
    (ports / "3" / "counters").symlink_to("/dev")
    for port, target in (("4", "/dev/zero"), ("5", ".")):
        (ports / port / "counters").mkdir(parents=True)
        (ports / port / WORDS_OUT).symlink_to(target)
    (ports / "6" / "counters").mkdir(parents=True)
    os.mkfifo(ports / "6" / WORDS_OUT)
    assert list(read(root)) == [("mlx5_0", "1")]


def test_no_more_than_so_many_devices(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_counters, "ENTRIES", 5)
    for number in range(9):
        put(root, WORDS_OUT, 5, f"mlx5_{number}")
    assert len(read(root)) == 5


@pytest.mark.parametrize(("port", "recorded", "note"), [
    (0, 0, None), (1000, 1000, None), (1000, 900, None), (1000, 700, "30% of the 1,000 bytes"), (1000, 0, "100% of"),
    (1000, 2000, "stayed on the node"),
])  # fmt: skip
def test_comparison(port: int, recorded: int, note: str | None) -> None:
    found = compare(port, recorded)
    assert (found is None) == (note is None)
    assert note is None or note in (found or "")


def test_it_needs_the_standard_library_only() -> None:
    code = "import sys; import tiresias.profiler.network.port_counters; assert not {'numpy', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
