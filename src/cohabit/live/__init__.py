"""The live controller: the same core as in the simulator, with a clock, a journal, a back end and peers around it."""
