"""A trial of policies with real programs: the same jobs under each policy in turn, on this machine or under Slurm."""
