"""Run the engine where user code cannot starve it: on a thread, or in a child process."""
