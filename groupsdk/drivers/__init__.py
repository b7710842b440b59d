"""Do what the membership decides: connections, threads, processes, and the calls into user code."""
