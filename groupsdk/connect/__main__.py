"""Run a worker: `python -m groupsdk.connect module:app`, the same as `groupsdk worker module:app`."""

import runpy
import sys


if __name__ == "__main__":
    sys.argv.insert(1, "worker")
    runpy.run_module("groupsdk", run_name="__main__")
