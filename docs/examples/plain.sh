#!/bin/bash
# tsbatch plain.sh
#SBATCH --job-name=plain
#SBATCH --gpus=1 --ntasks=1 --cpus-per-task=4 --mem=16G
exec python3 plain.py "$@"
