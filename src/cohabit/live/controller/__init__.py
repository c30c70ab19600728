"""The controller itself: inbox, journal, core, commands."""
