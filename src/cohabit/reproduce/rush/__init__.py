"""RUSH (IPDPS 2022) in the simulated world."""
