"""The sockets: connections, limits, security, and one handler per API."""
