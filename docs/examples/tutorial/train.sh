#!/bin/bash
#SBATCH --output=%x-%j.out
exec python3 /opt/tiresias/docs/examples/tutorial/train.py "$@"
