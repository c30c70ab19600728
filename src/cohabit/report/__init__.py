"""What a finished run looks like to people: metrics, tables, figures and a page. Reads `RunTable` and nothing else."""
