"""The API of a live scheduler: HTTP over a UNIX socket for local users, over TCP with tokens and TLS for others."""
