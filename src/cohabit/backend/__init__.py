"""Back ends: one folder per system that can run jobs, all behind the same small protocol."""
