"""The decision core: pure, synchronous, no clock, no threads, no files, no randomness of its own."""
