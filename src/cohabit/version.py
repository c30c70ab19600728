"""The version, in a module that knows nothing else."""

__version__ = "0.1.0"
