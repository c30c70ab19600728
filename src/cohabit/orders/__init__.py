"""Orders: how a score function is loaded, compiled for one job at a time, checked and called."""
