"""The licence of Slurm by which remote memory is requested and counted: `Licenses=remote_memory:2048` in slurm.conf, in GiB.

`-L remote_memory:64` requests 64 GiB for the whole job. So Slurm itself promises no more than the site declares, shows what is
promised (`scontrol show licenses`) and limits users and accounts (GrpTRES=license/remote_memory=256). It counts jobs that the
controller does not manage, too.
"""

from __future__ import annotations

LICENSE = "remote_memory"
MIB_OF_ONE = 1024


def option(mib: int) -> str:
    """Return the value of `--licenses` for so much remote memory of the whole job, rounded up to GiB."""
    return f"{LICENSE}:{-(-mib // MIB_OF_ONE)}"
