"""Keep pandas out of processes that have no use for it: where it is installed, a fifth of a short run's CPU time."""

import sys


class _NoPandas:
    """A finder of modules that has pandas not be there."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def leave_out_pandas() -> None:
    """Keep pyarrow from importing pandas in this process, to be called before any module that makes values of Arrow.

    pyarrow tries to import pandas once, as it converts its first value of Python's. This is for processes that give it no
    values of pandas. Code that imports pandas itself still gets it.
    """
    import pyarrow as pa

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(finder)
