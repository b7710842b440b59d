"""The rules of a verdict, by what they are about."""
