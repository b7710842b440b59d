"""Answer requests: a module for each family of APIs, imported when the first of its requests comes."""
