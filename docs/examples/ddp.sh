#!/bin/bash
# tsbatch ddp.sh: four nodes with four GPUs each
#SBATCH --job-name=ddp
#SBATCH --nodes=4 --ntasks-per-node=4 --gpus-per-node=4 --cpus-per-task=4
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
tsrun python3 ddp.py "$@"
