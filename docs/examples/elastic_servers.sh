#!/bin/bash
# tsbatch --elastic=1-4 --servers=1-2 elastic_servers.sh: workers and parameter servers, both numbers change
#SBATCH --job-name=elastic-servers
#SBATCH --ntasks=2 --gpus-per-task=1 --cpus-per-task=4
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export WORKERS=$SLURM_NTASKS
srun --exact --gres=none --ntasks="$TIRESIAS_SERVERS" --cpus-per-task=4 python3 elastic_servers.py server &
srun --exact --cpus-per-task=4 python3 elastic_servers.py worker "$@"
