#!/bin/sh
# usage: smoke.sh PYTHON DISTRIBUTION   installs a wheel or an sdist in a new environment, far from the checkout, and runs its commands
set -eu
distribution=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" -m venv "$work/venv"
cd "$work"
"$work/venv/bin/python" -m pip install -q --disable-pip-version-check "$distribution"
PATH="$work/venv/bin:$PATH"

python -c "import tiresias.checkpoint; print(tiresias.checkpoint.__file__)" | grep "^$work/"
case $distribution in *slurm_tiresias_checkpoint-*) exit 0 ;; esac

tiresias --version
tiresias --help > /dev/null
tsbatch --help > help 2>&1 || true # sbatch's own help needs Slurm
tiresias workload testbed --seed 1 --out trace.csv
tiresias simulate trace.csv --policy las,fifo --nodes 15 --gpus-per-node 4 --json simulated.json
grep -q '"las"' simulated.json
tiresias check-config "$(python -c 'import tiresias; print(tiresias.__path__[0])')/share/etc/tiresias.toml" > /dev/null
echo "$(basename "$distribution"): installed, imported and run with $(python --version)"
