"""Give the engine a place to run that user code cannot starve: a thread, or a child process."""
