"""Gates: they decide whether a job that has found its nodes starts there now. One gate per file."""
