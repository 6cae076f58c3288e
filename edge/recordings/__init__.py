"""What the daemon has on disk: segments with sidecars in a chain, their retention, recovery and verification."""
