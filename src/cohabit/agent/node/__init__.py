"""The node under another resource manager: the jobs on it, their cores and groups, and what they use."""
