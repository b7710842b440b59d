"""Connectors: their configurations, secrets and validation, and what REST and programs do with them."""
