"""Three workers count the words of the standard library, survive a kill, a newcomer and a zombie."""
