"""The software bill of materials, in the format CycloneDX 1.5: what a package has, needs, and was built with.

    python etc/packages/sbom.py dist        dist/slurm-tiresias-0.1.0.cdx.json

Names and bounds of what it needs are those of pyproject.toml; what builds it, with versions and hashes, is build-requirements.txt.
The same checkout gives the same file.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from tiresias import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PINNED = re.compile(r"^([\w.-]+)==(\S+) --hash=sha256:([0-9a-f]{64})$", re.MULTILINE)
NEEDED = re.compile(r"^([\w.-]+)(?:\[.*\])?([^;]*)")
NAME = "slurm-tiresias"
HERE = Path(__file__).resolve().parent


def bill() -> dict[str, Any]:
    project = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())["project"]
    needed = [_needed(words, "required") for words in project["dependencies"]]
    needed += [_needed(words, "optional") for extra in project["optional-dependencies"].values() for words in extra]
    needed = list({one["bom-ref"]: one for one in reversed(needed)}.values())[::-1]
    built = [_pinned(*found) for found in PINNED.findall((HERE / "build-requirements.txt").read_text())]
    license = {"license": {"name": project["license"]}}
    about = {"type": "application", "bom-ref": NAME, "name": NAME, "version": __version__, "licenses": [license]}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**about, "purl": f"pkg:pypi/{NAME}@{__version__}"}},
        "components": [*needed, *built],
        "dependencies": [{"ref": NAME, "dependsOn": [one["bom-ref"] for one in needed]}],
    }


def _needed(words: str, scope: str) -> dict[str, Any]:
    """What the installation brings: the package states bounds, not versions."""
    found = NEEDED.match(words)
    assert found, words
    name, bounds = found[1].lower(), found[2].strip()
    return {
        "type": "library",
        "bom-ref": name,
        "name": name,
        "scope": scope,
        "purl": f"pkg:pypi/{name}",
        "properties": [{"name": "tiresias:requires", "value": bounds or "any"}],
    }


def _pinned(name: str, version: str, digest: str) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": f"build:{name}",
        "name": name,
        "version": version,
        "scope": "excluded",
        "purl": f"pkg:pypi/{name}@{version}",
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }


def text() -> str:
    return json.dumps(bill(), indent=1) + "\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    file = folder / f"{NAME}-{__version__}.cdx.json"
    file.write_text(text())
    print(file)
