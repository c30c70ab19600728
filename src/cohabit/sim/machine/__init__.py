"""The ground truth of shared nodes: how fast jobs really run beside each other. Nothing that decides may import it."""
