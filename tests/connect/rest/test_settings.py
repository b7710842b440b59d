"""Holds who may listen where."""

import pytest

from groupsdk.connect.rest.settings import RestSettings, is_loopback
from groupsdk.errors import ConfigError


def test_loopback_is_the_default_and_needs_no_password() -> None:
    settings = RestSettings.of(":8083", None, None, None)
    assert settings is not None
    assert (settings.host, settings.url) == ("127.0.0.1", "http://127.0.0.1:8083")
    assert RestSettings.of(None, None, None, None) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "worker.example"])
def test_elsewhere_a_password_is_required(host: str) -> None:
    with pytest.raises(ConfigError, match="can be reached by others"):
        RestSettings(host=host)
    assert RestSettings(host=host, user="u", password="secret").user == "u"
    assert not is_loopback(host)


def test_half_of_a_login_is_refused_and_no_repr_shows_the_password() -> None:
    with pytest.raises(ConfigError, match="or neither"):
        RestSettings(user="u")
    assert "secret" not in repr(RestSettings(user="u", password="secret"))


@pytest.mark.parametrize("wrong", ["8083", "host:", "host:http", "host:70000"])
def test_an_address_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="--rest must be host:port"):
        RestSettings.of(wrong, None, None, None)
    with pytest.raises(ConfigError, match="advertised"):
        RestSettings.of("127.0.0.1:1", "worker:1", None, None)
