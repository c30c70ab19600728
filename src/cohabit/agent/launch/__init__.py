"""Starting a program and being sure of its end: the one place where Cohabit forks, binds, captures and reaps."""
