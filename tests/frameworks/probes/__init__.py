"""Tiny programs that report what they were given: ranks, threads, cores."""
