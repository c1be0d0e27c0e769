#!/bin/bash
# tsbatch --elastic=1-8 elastic.sh: two GPUs requested, any number from one to eight used
#SBATCH --job-name=elastic
#SBATCH --ntasks=2 --gpus-per-task=1 --cpus-per-task=4
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
tsrun python3 elastic.py "$@"
