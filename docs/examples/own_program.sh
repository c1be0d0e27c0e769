#!/bin/bash
# tsbatch own_program.sh: a program in any language that saves by itself
#SBATCH --job-name=own
#SBATCH --gpus=1 --ntasks=1
exec python3 -m tiresias.checkpoint.adapters.hook --signal USR1 --file 'own.state' -- ./own_program "$@"
