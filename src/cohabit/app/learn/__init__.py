"""Training models, matching jobs and dividing caches on behalf of a person."""
