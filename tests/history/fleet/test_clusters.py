"""The file of a fleet: what it may say, and what is said where it is wrong."""

from pathlib import Path

import pytest

from groupsdk.errors import ConfigError
from groupsdk.history.fleet.clusters import Owner, read_fleet


GOOD = """
[defaults]
session_timeout = 45

[clusters.prod-eu]
bootstrap_servers = "eu:9092"
config = "secrets/eu.properties"

[clusters.files]
segments = "/var/lib/kafka"
session_timeout = 10

[[owners]]
groups = "pay-*"
team = "payments"
on_call = "https://pager/payments"

[[owners]]
groups = "*"
clusters = "prod-*"
team = "platform"
"""


def fleet_of(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "fleet.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_clusters_have_the_defaults_and_paths_beside_the_file(tmp_path: Path) -> None:
    fleet = read_fleet(str(fleet_of(tmp_path, GOOD)))
    eu, files = fleet.clusters
    assert eu.options == {
        "session_timeout": "45",
        "bootstrap_servers": "eu:9092",
        "config": str(tmp_path / "secrets/eu.properties"),
    }
    assert "--session-timeout=10" in files.arguments()
    assert "--segments=/var/lib/kafka" in files.arguments()


def test_the_first_owner_that_matches_owns_a_group(tmp_path: Path) -> None:
    fleet = read_fleet(str(fleet_of(tmp_path, GOOD)))
    payments = Owner("pay-*", "*", "payments", "https://pager/payments")
    assert fleet.owner_of("prod-eu", "pay-1") == fleet.owner_of("files", "pay-1") == payments
    platform = fleet.owner_of("prod-eu", "orders")
    assert platform is not None
    assert platform.team == "platform"
    assert fleet.owner_of("files", "orders") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("clusters", "is not TOML"),
        ("", "lists no clusters"),
        ("clusters = 1", "clusters must be a table, not 1"),
        ("[clusters.'a/b']\nsegments = 'd'", "letters, digits"),
        ("[clusters.a]", "exactly one of segments, archive, bootstrap_servers"),
        ("[clusters.a]\nsegments='d'\narchive='d'", "exactly one of"),
        ("[clusters.a]\nsegmnts='d'", "did you mean segments?"),
        ("[clusters.a]\nsasl_password='x'", "is not known; known are segments"),
        ("[clusters.a]\nsegments=1", "segments of clusters.a must be a text, not 1"),
        ("[clusters.a]\nsegments='d'\nsession_timeout='x'", "must be a number, not 'x'"),
        ("[cluster.a]\nsegments='d'", "did you mean clusters?"),
        ("[clusters.a]\nsegments='d'\n[[owners]]\nteam='t'", "needs groups"),
        ("owners=1\n[clusters.a]\nsegments='d'", r"must be tables \[\[owners\]\]"),
    ],
)
def test_what_is_wrong_is_said_with_what_would_be_right(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        read_fleet(str(fleet_of(tmp_path, text)))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read: No such file"):
        read_fleet(str(tmp_path / "none.toml"))
