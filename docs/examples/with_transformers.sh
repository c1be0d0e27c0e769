#!/bin/bash
# tsbatch with_transformers.sh
#SBATCH --job-name=transformers
#SBATCH --gpus=1 --ntasks=1 --cpus-per-task=4
tsrun python3 with_transformers.py "$@"
