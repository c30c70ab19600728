"""The parts that steering any resource manager needs."""
