"""Names are the same everywhere, and messages stay on one line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkvault.store.names import check_name, check_prefix, is_name, printable


@given(st.text(alphabet="ab./-_ \n\0ä", max_size=12))
def test_names_follow_the_rule_in_words(text: str) -> None:
    """A name is what one gets by splitting at slashes and looking at each part."""
    parts = text.split("/")
    expected = all(
        re.fullmatch(r"[A-Za-z0-9._-]{1,255}", part) and part not in {".", ".."} for part in parts
    )
    assert is_name(text) == expected


@pytest.mark.parametrize("name", ["incoming", "incoming/x"])
def test_temporaries_have_no_names(name: str) -> None:
    """Nothing below incoming/ is ever taken for an object."""
    with pytest.raises(ValueError, match="incoming"):
        check_name(name)


def test_prefixes_end_with_a_slash() -> None:
    """Half a folder's name is no prefix, so that no back end matches more than another."""
    check_prefix("")
    check_prefix("blobs/ab/")
    for bad in ("blobs", "/", "../", "incoming/", "a//"):
        with pytest.raises(ValueError, match="not a folder"):
            check_prefix(bad)


def test_printable_leaves_no_control_characters() -> None:
    """A path cannot drive a terminal or break the line of its message."""
    assert printable("/srv/vault ä") == "/srv/vault ä"
    assert printable("a\nb\x1b]0;x\a\udcff") == r"a\nb\x1b]0;x\x07\udcff"
