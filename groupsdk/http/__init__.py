"""HTTP for those parts that answer to it: the REST interface of workers and the live page."""
