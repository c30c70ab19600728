"""The controller itself: inbox, journal, core, orders."""
