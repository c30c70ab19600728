"""The command line: one file per verb. Start-up imports nothing heavy; a verb imports what it uses."""
