"""Jobs as processes of this machine: they outlive the controller, and the operating system holds their state."""
