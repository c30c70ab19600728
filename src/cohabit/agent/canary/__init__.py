"""Two small MPI programs that measure the current network congestion (RUSH R4), and how they are started."""
