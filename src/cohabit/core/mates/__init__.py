"""Jobs on different domains that start together: groups and their terms, the protocol between domains, deadlocks."""
