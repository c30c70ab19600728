"""Two small MPI programs that feel how congested the network is now (RUSH R4), and how they are started."""
