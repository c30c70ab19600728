"""Train models, match jobs and divide caches for a user."""
