"""Gates: whether a job that has found its nodes should start there now. One file, one gate."""
