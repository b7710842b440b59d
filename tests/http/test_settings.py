"""Holds who may listen where."""

import pytest

from groupsdk.errors import ConfigError
from groupsdk.http.settings import HttpSettings, is_loopback


def test_loopback_is_the_default_and_needs_no_password() -> None:
    settings = HttpSettings.of("--rest", ":8083")
    assert (settings.host, settings.url) == ("127.0.0.1", "http://127.0.0.1:8083")
    named = HttpSettings.of("--web", "[::1]:8080")
    assert (named.host, named.url) == ("::1", "http://[::1]:8080")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "worker.example"])
def test_elsewhere_a_password_is_required(host: str) -> None:
    with pytest.raises(ConfigError, match="can be reached by others"):
        HttpSettings(host=host)
    assert HttpSettings(host=host, user="u", password="secret").user == "u"
    assert not is_loopback(host)


def test_half_of_a_login_is_refused_and_no_repr_shows_the_password() -> None:
    with pytest.raises(ConfigError, match="or neither"):
        HttpSettings(user="u")
    assert "secret" not in repr(HttpSettings(user="u", password="secret"))


@pytest.mark.parametrize("wrong", ["8083", "host:", "host:http", "host:70000"])
def test_an_address_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="--rest must be HOST:PORT"):
        HttpSettings.of("--rest", wrong)
    with pytest.raises(ConfigError, match="advertised"):
        HttpSettings.of("--rest", "127.0.0.1:1", advertised_url="worker:1")
