"""The state of the running service, as its status file has it, for people and for programs."""
