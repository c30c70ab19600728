"""A controller on top of Slurm or Grid Engine."""
