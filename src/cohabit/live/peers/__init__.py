"""Other domains: messages, keys, and the threshold at which runs of mates wait."""
