"""Clusters with a controller: one cluster for the session and one controller at a time.

A test that takes `centre` gets a running controller with the usual configuration; `centre.restart(...)` changes it, and the next
test gets a new controller.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tiresias.sandbox import rootfs
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec


@pytest.fixture(scope="session")
def centre_of() -> Iterator[Callable[..., Centre]]:
    """Return the centre of a suite and other options of ClusterSpec; it is started at its first use."""
    centres: dict[str, Centre] = {}

    def get(suite: str, **options: Any) -> Centre:
        key = f"{suite}{sorted(options.items())}"
        if key not in centres:
            settings = {"KillWait": "5", **options.pop("settings", {})}
            name = f"controller-{suite}-{len(centres)}-{os.getpid()}"
            centres[key] = Centre(
                Cluster.up(ClusterSpec(**{"name": name, "suite": suite, "nodes": 4, **options, "settings": settings}))
            )
        return centres[key]

    yield get
    for centre in centres.values():
        centre.stop("KILL")
        centre.cluster.down()


@pytest.fixture
def centre_of_this_python(centre_of: Callable[..., Centre]) -> Callable[[], Centre]:
    """Return the centre with this Python's version, with this environment's packages in /shared/packages."""

    def get() -> Centre:
        own = f"{sys.version_info[0]}.{sys.version_info[1]}."
        suite = next((suite for suite in rootfs.SUITES if rootfs.ensure(suite).python_version.startswith(own)), None)
        if suite is None:
            pytest.skip(f"no suite has Python {own[:-1]}, which PyTorch is installed for")
        centre = centre_of(suite)
        if not (packages := centre.cluster.shared / "packages").exists():
            shutil.copytree(sysconfig.get_path("purelib"), packages, copy_function=_link)
        return centre

    return get


@pytest.fixture
def training_centre(centre_of_this_python: Callable[[], Centre]) -> Iterator[Centre]:
    """The centre of this Python whose large jobs are past the threshold after their first second.

    A save may wait for ranks that get no processor, hence the long deadline.
    """
    centre = centre_of_this_python()
    centre.restart(policy={"thresholds": [8.0], "min_run": 0.1}, preemption={"deadline": 120.0, "start_timeout": 20.0})
    yield centre
    centre.clean()
    centre.stop()


def _link(source: str, target: str) -> None:
    """Make a hard link where the file system allows it: the packages have hundreds of megabytes."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture
def centre(centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    centre = centre_of("forky")
    centre.ready()
    yield centre
    centre.clean()


OTHERS = [pytest.param(f"commands@{suite}", marks=pytest.mark.long) for suite in ("forky", "trixie", "bookworm")]


@pytest.fixture(params=["pyslurm@forky", *OTHERS])
def any_centre(request: pytest.FixtureRequest, centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    """A controller with each back end on each release of Slurm. `make test` has all of them in test_controller_backends.py, and
    here the first."""
    backend, suite = request.param.split("@")
    centre = centre_of(suite)
    centre.restart(backend=backend, comment={"interval": 1.0})
    yield centre
    centre.clean()
