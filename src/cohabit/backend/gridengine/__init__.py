"""Grid Engine as the one who executes: it keeps accounts, launching and limits; placement is decided here."""
