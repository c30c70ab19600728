"""Shepherd (PACT 2017 poster): its one experiment P12 to P15, hardware limits, hidden programs, and sensitivity."""
