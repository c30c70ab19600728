"""Back ends: what they run, stop, report and find again."""
