"""What a user may write for a location, and what comes of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from chunkvault.errors import UsageError
from chunkvault.store.local import LocalStore
from chunkvault.store.location import Location, LocationKind, open_store, parse_location


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/srv/vault", "/srv/vault"),
        ("/srv/vault/", "/srv/vault"),
        ("vault", "vault"),
        ("./host:vault", "host:vault"),
        ("../a b/ä", "../a b/ä"),
        ("/srv/a:b", "/srv/a:b"),
        ("dir/a:b", "dir/a:b"),
        ("./~x", "~x"),
        (" lead", " lead"),
        ("file:///srv/vault", "/srv/vault"),
        ("FILE:///srv/a%20b%3F", "/srv/a b?"),
        ("file://localhost/srv", "/srv"),
        ("file:////srv", "/srv"),
        ("file:///srv/%FF", "/srv/\udcff"),
    ],
)
def test_local_locations(text: str, path: str) -> None:
    """Paths are taken literally, file URLs are decoded."""
    assert parse_location(text) == Location(
        LocationKind.LOCAL, Path(path), parse_location(text).display
    )


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "give a path"),
        ("  ", "give a path"),
        ("a\0b", "NUL"),
        ("file:///a%00b", "NUL"),
        ("~/vault", r"\$HOME"),
        ("~ada/vault", r"\$HOME"),
        ("host:vault", r"\./host:vault"),
        ("u@h:23:/p", r"\./u@h"),
        ("C:\\vault", r"\./C:"),
        ("C:/vault", r"\./C:"),
        ("file:/srv", r"\./file:/srv"),
        ("file://host/srv", "three slashes"),
        ("file://", "three slashes"),
        ("file:///srv?x", "%3F"),
        ("sftp://u@[::1]:2323/p", "not in this version"),
        ("SFTP://host/p", "not in this version"),
        ("b2://bucket/prefix", "not in this version"),
        ("s3://bucket", "unknown kind"),
        ("https://example.org/", "unknown kind"),
    ],
)
def test_refused_locations(text: str, advice: str) -> None:
    """What is empty, ambiguous or not offered is refused with what to write instead."""
    with pytest.raises(UsageError, match=advice) as caught:
        parse_location(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["sftp", "b2", "https", "file"])
def test_messages_hold_no_password(scheme: str) -> None:
    """A password in a URL is not repeated."""
    with pytest.raises(UsageError) as caught:
        parse_location(f"{scheme}://user:hunter2@host/p")
    assert "hunter2" not in str(caught.value)


def test_display_is_one_line() -> None:
    """A folder's name cannot break a message or drive a terminal."""
    assert parse_location("/srv/a\nb\x1b").display == r"/srv/a\nb\x1b"


def test_open_store_gives_the_back_end(tmp_path: Path) -> None:
    """A local location opens a local store that calls itself what the user wrote."""
    store = open_store(parse_location(f"{tmp_path}/vault/"))
    assert isinstance(store, LocalStore)
    assert store.location == f"{tmp_path}/vault/"
    assert store.root == tmp_path / "vault"
    assert not (tmp_path / "vault").exists()
    asyncio.run(store.close())
