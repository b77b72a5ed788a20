"""Where the steps of a sweep run: in processes on this machine, or on a Ray cluster."""
