"""How a job's command becomes processes on its nodes: one small file per framework, each a pure function."""
