"""A fault campaign against the whole daemon: faults repeatable by seed, and an oracle over what it wrote."""
