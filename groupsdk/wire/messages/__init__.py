"""Declare the messages, one module per API."""
