"""Cache ways and memory bandwidth of running jobs, set through the kernel's resctrl file system."""
