#!/bin/bash
# tsbatch with_lightning.sh
#SBATCH --job-name=lightning
#SBATCH --gpus=1 --ntasks=1 --cpus-per-task=4
tsrun python3 with_lightning.py "$@"
