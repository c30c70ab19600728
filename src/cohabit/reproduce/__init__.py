"""The published results again: one package per paper, with its value beside the measured one."""
