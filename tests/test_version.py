"""Tests of the version."""

import re
from importlib.metadata import version

from groupsdk.version import __version__


def test_the_version_is_that_of_the_installed_distribution() -> None:
    assert version("groupsdk") == __version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
