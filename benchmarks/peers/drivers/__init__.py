"""Small programs that run inside a peer's own interpreter and hand the jobs to its own interface."""
