"""Small real programs, each stressing one resource, to run, measure and demonstrate. They know nothing of the rest."""
