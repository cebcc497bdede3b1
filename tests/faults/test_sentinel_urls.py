"""One URL says where a Sentinel-managed fleet is, for its store and for its broker."""

import pytest

from turnfleet.errors import InvalidAddress
from turnfleet.store.place import address
from turnfleet.store.sentinel import SentinelPlace, sentinel_place
from turnfleet.wire import celery_settings


def test_a_url_names_sentinels_a_service_and_a_database() -> None:
    """Ports, database and logins are optional; escaped characters are read as what they stand for."""
    assert sentinel_place("redis+sentinel://a:1,b,[::1]:3/shop/2") == SentinelPlace(
        (("a", 1), ("b", 26379), ("::1", 3)), "shop", 2, {}, {}
    )
    place = sentinel_place("redis+sentinel://me:p%40ss@a/shop?sentinel_password=s%26")
    assert place is not None
    assert (place.login, place.sentinel_login, place.db) == (
        {"username": "me", "password": "p@ss"},
        {"password": "s&"},
        0,
    )
    assert sentinel_place("redis://localhost:6379/0") is None


def test_the_broker_is_told_in_its_own_words() -> None:
    """Kombu wants one URL a sentinel, and the service's name beside them."""
    settings = celery_settings("f", "redis+sentinel://:p%40ss@a:1,b:2/shop/3?sentinel_password=s")
    options = settings["broker_transport_options"]
    assert settings["broker_url"] == "sentinel://:p%40ss@a:1/3;sentinel://:p%40ss@b:2/3"
    assert (options["master_name"], options["sentinel_kwargs"]["password"]) == ("shop", "s")
    assert options["queue_order_strategy"] == "priority"


def test_tls_is_for_the_servers_and_the_sentinels() -> None:
    """One authority and one certificate of the client's; the check of certificates is said to redis-py and kombu."""
    url = "rediss+sentinel://:p@a,b:2/shop/3?sentinel_password=s&ssl_ca_certs=/ca.pem&ssl_certfile=/me.pem"
    tls = {"ssl_cert_reqs": "required", "ssl_ca_certs": "/ca.pem", "ssl_certfile": "/me.pem"}
    place = sentinel_place(url)
    assert place is not None
    assert place.server_options == {"db": 3, "password": "p", "ssl": True, **tls}
    assert place.sentinel_options == {"password": "s", "ssl": True, **tls}
    settings = celery_settings("f", url)
    assert (settings["broker_url"], settings["broker_use_ssl"]) == ("sentinel://:p@a:26379/3;sentinel://:p@b:2/3", tls)
    sentinels = settings["broker_transport_options"]["sentinel_kwargs"]
    assert sentinels.items() >= {"password": "s", "ssl": True, **tls}.items()
    assert "broker_use_ssl" not in celery_settings("f", "redis+sentinel://a/shop")


def test_the_check_of_certificates_cannot_be_turned_off() -> None:
    """And options of TLS without TLS are a mistake: nobody should believe in a check that is not made."""
    assert sentinel_place("rediss+sentinel://a/shop?ssl_cert_reqs=required") is not None
    with pytest.raises(InvalidAddress, match="always checked"):
        sentinel_place("rediss+sentinel://a/shop?ssl_cert_reqs=none")
    with pytest.raises(InvalidAddress, match="only"):
        sentinel_place("rediss+sentinel://a/shop?ssl_check_hostname=false")
    with pytest.raises(InvalidAddress, match=r"those of TLS are for rediss\+sentinel"):
        sentinel_place("redis+sentinel://a/shop?ssl_ca_certs=/ca.pem")


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://:secret@a:1",
        "redis+sentinel://:secret@/shop",
        "redis+sentinel://:secret@a:1/shop/x",
        "redis+sentinel://:secret@a:1/shop?socket_timeout=1",
        "redis+sentinel://:secret@a:port/shop",
        "rediss+sentinel://:secret@a:1",
    ],
)
def test_what_makes_no_sense_is_refused_without_being_quoted(url: str) -> None:
    """A URL holds a password: it is in no error and in no log."""
    with pytest.raises(ValueError, match=r"Sentinel|[Pp]ort") as refused:
        sentinel_place(url)
    assert "secret" not in str(refused.value)


def test_errors_name_the_service_and_its_sentinels() -> None:
    """And nothing else of the URL."""
    assert address("redis+sentinel://me:secret@a:1,b/shop") == "service 'shop' of a:1, b:26379"
    assert address("redis://me:secret@a:1/0") == "a:1"
