"""The HTTP server behind the workers' REST interface and the live page."""
