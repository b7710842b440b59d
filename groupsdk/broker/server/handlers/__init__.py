"""Request handlers: a module for each family of APIs, imported with its first request."""
