"""Run the history: `python -m groupsdk.history`, the same as `groupsdk history`."""

import runpy
import sys


if __name__ == "__main__":
    sys.argv.insert(1, "history")
    runpy.run_module("groupsdk", run_name="__main__")
