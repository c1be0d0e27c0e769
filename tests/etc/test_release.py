"""What a release has beside its packages: a bill of materials, pinned build tools, a signature that covers every file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tiresias import __version__

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "etc/packages"
PINNED = (PACKAGES / "build-requirements.txt").read_text()
signs = pytest.mark.skipif(not shutil.which("gpg"), reason="gpg is not here: install gnupg")


@pytest.fixture(scope="module")
def bill(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("dist")
    words = [sys.executable, str(PACKAGES / "sbom.py"), str(folder)]
    made = Path(subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip())
    again = made.read_bytes()
    subprocess.run(words, capture_output=True, check=True)
    assert made.read_bytes() == again
    found: dict[str, Any] = json.loads(again)
    return found


def test_the_bill_is_one(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert bill["metadata"]["component"]["version"] == __version__
    references = [one["bom-ref"] for one in bill["components"]]
    assert len(set(references)) == len(references)
    assert set(bill["dependencies"][0]["dependsOn"]) <= set(references)
    assert all(one["type"] == "library" and one["purl"].startswith("pkg:pypi/") for one in bill["components"])


def test_the_bill_names_all_that_is_needed_and_all_that_builds(bill: dict[str, Any]) -> None:
    text = (ROOT / "pyproject.toml").read_text()
    needed = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert needed
    required = {one["name"] for one in bill["components"] if one["scope"] == "required"}
    assert required == set(re.findall(r'^ +"([\w-]+)', needed[1], re.MULTILINE))
    built = {one["name"] for one in bill["components"] if one["scope"] == "excluded"}
    assert built == set(re.findall(r"^([\w-]+)==", PINNED, re.MULTILINE))


def test_what_builds_the_wheels_is_pinned_by_hash() -> None:
    lines = [line for line in PINNED.splitlines() if not line.startswith("#")]
    assert lines
    assert all(re.fullmatch(r"[\w-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    requires = re.findall(
        r'"([\w-]+)', re.findall(r"^requires = (.*)$", (ROOT / "pyproject.toml").read_text(), re.M)[0]
    )
    assert set(requires) <= {line.partition("==")[0] for line in lines}


def gpg(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["gpg", "--batch", *words],
        env=os.environ | {"GNUPGHOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


@signs
def test_a_signature_covers_every_file(tmp_path: Path) -> None:
    """With a throw-away key."""
    home, dist = tmp_path / "g", tmp_path / "dist"
    home.mkdir(mode=0o700)
    dist.mkdir()
    made = gpg(
        home,
        "--pinentry-mode",
        "loopback",
        "--passphrase",
        "",
        "--quick-gen-key",
        "release@example.org",
        "ed25519",
        "sign",
    )
    assert made.returncode == 0, made.stderr
    for name in ("slurm-tiresias_1_amd64.deb", "a name with blanks.whl"):
        (dist / name).write_text(name)
    environment = os.environ | {"GNUPGHOME": str(home)}
    words = [str(PACKAGES / "sign.sh"), "release@example.org", str(dist)]
    subprocess.run(words, env=environment, capture_output=True, check=True, timeout=60)
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert gpg(home, "--verify", str(dist / "SHA256SUMS.asc"), str(dist / "SHA256SUMS")).returncode == 0
    assert subprocess.run(check, cwd=dist, capture_output=True, text=True, check=True).stdout.count(": OK") == 2
    (dist / "slurm-tiresias_1_amd64.deb").write_text("other")
    assert subprocess.run(check, cwd=dist, capture_output=True, check=False).returncode == 1
    with (dist / "SHA256SUMS").open("a") as sums:
        sums.write("0  other\n")
    assert gpg(home, "--verify", str(dist / "SHA256SUMS.asc"), str(dist / "SHA256SUMS")).returncode != 0
    subprocess.run(["gpgconf", "--kill", "all"], env=environment, check=False, capture_output=True)


def test_nothing_to_sign_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run([str(PACKAGES / "sign.sh"), "x", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
