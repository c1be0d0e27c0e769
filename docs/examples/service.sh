#!/bin/bash
# tsbatch service.sh: two nodes with four ranks each, which would have two parameter servers of their own
#SBATCH --job-name=service
#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4 --cpus-per-task=4
exec python3 -m tiresias.services.parameter_service.agent.register --manager "${MANAGER:-/shared/service/published.json}" \
  --servers 2 --workers "$SLURM_NTASKS" -- tsrun python3 service.py "$@"
