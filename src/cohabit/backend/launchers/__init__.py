"""Turn a job's command into processes on its nodes: one small file per framework, each a pure function."""
