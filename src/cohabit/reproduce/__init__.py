"""The published results again: one package per paper, its experiments, and the paper's value beside the measured one."""
