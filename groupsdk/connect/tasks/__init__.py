"""Tasks of this worker: started, restarted, supervised, kept warm, ended."""
