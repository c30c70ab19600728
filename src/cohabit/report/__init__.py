"""Reports of a finished run: metrics, tables, figures and a page. Reads `RunTable` and nothing else."""
