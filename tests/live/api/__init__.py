"""The API, on real sockets: a server in this process, callers in this one and in others."""
