"""What steering any resource manager needs."""
