#!/bin/bash
#SBATCH --ntasks=2 --gpus-per-task=1 --output=%x-%j.out
exec python3 /opt/tiresias/docs/examples/tutorial/growing.py "$@"
