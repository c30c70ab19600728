"""The weather of the machine: shared network and filesystem whose load changes with time, and counters that show it."""
