"""The network server: connections, limits, security, and one handler for each API."""
