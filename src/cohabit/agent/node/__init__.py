"""The node under another resource manager: which jobs are on it, on which cores, in which groups, what they use."""
