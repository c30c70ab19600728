"""The live controller: journal, recovery, executor, peers."""
