"""Reproductions of published results: one package per paper, with its value beside the measured one."""
