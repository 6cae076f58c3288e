"""What a system service needs around it: the service manager, the journal, health, metrics, the board."""
