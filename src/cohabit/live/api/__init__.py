"""The API of a living scheduler: HTTP over a UNIX socket for local users, over TCP with tokens and TLS for others."""
