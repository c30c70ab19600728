"""Measuring a program while it runs: sources of counters behind one interface, and what each offers on this host."""
