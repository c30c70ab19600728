"""Grid Engine as the executing system: it keeps accounts, launching and limits; placement is decided here."""
