"""Passphrases and Argon2id parameters."""

from __future__ import annotations

import unicodedata

import pytest

from chunkvault.crypto.passphrase import KdfParameters, derive_wrapping_key, passphrase_bytes
from chunkvault.errors import FormatError, PassphraseError

SALT = bytes(range(16))


def small(**changes: int) -> KdfParameters:
    values = {"memory_kib": 64, "iterations": 1, "lanes": 1, **changes}
    return KdfParameters(SALT, **values)


def test_an_accent_opens_the_vault_however_it_is_typed() -> None:
    """Composed and decomposed forms are one passphrase."""
    composed = unicodedata.normalize("NFC", "Zoë")
    decomposed = unicodedata.normalize("NFD", "Zoë")
    assert composed != decomposed
    assert passphrase_bytes(composed) == passphrase_bytes(decomposed) == "Zoë".encode()


def test_nothing_is_trimmed_or_folded() -> None:
    """Blanks, case and compatibility characters count."""
    assert passphrase_bytes(" A\n") == b" A\n"
    assert passphrase_bytes("\N{LATIN SMALL LIGATURE FI}") != passphrase_bytes("fi")


def test_bytes_that_are_no_utf_8_stay_as_they_are() -> None:
    """A passphrase file in another encoding works, since its bytes come through."""
    text = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert passphrase_bytes(text) == b"caf\xe9"


@pytest.mark.parametrize("text", ["", "x" * 65_537, "\ud800"])
def test_useless_passphrases_are_refused(text: str) -> None:
    """Empty, huge and unencodable ones give one clear error that does not repeat them."""
    with pytest.raises(PassphraseError) as caught:
        passphrase_bytes(text)
    assert "xxx" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"lanes": 0},
        {"lanes": 17, "memory_kib": 1024},
        {"iterations": 0},
        {"iterations": 33},
        {"memory_kib": 7},
        {"memory_kib": 31, "lanes": 4},
        {"memory_kib": (1 << 20) + 1},
        {"memory_kib": 1 << 31},
    ],
)
def test_parameters_are_bounded_before_they_are_run(changes: dict[str, int]) -> None:
    """A hostile key slot cannot ask for all memory, or for a year."""
    with pytest.raises(FormatError, match="allowed are"):
        small(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"lanes": 16, "memory_kib": 128},
        {"memory_kib": 8},
        {"memory_kib": 1 << 20},
        {"iterations": 32},
    ],
)
def test_the_bounds_themselves_are_allowed(changes: dict[str, int]) -> None:
    """Limits are inclusive."""
    small(**changes)


def test_a_salt_of_another_size_is_refused() -> None:
    """The format knows 16 bytes only."""
    with pytest.raises(FormatError, match="salt"):
        KdfParameters(b"short")


def test_defaults_are_those_of_the_format_page() -> None:
    """64 MiB, three passes, four lanes."""
    defaults = KdfParameters(SALT)
    assert (defaults.memory_kib, defaults.iterations, defaults.lanes) == (65_536, 3, 4)


def test_the_wrapping_key_depends_on_everything() -> None:
    """Passphrase, salt and each parameter change the key."""
    parameters = [small(), small(memory_kib=72), small(iterations=2), small(lanes=2)]
    parameters.append(KdfParameters(b"s" * 16, memory_kib=64, iterations=1, lanes=1))
    keys = [derive_wrapping_key(b"passphrase", p) for p in parameters]
    keys.append(derive_wrapping_key(b"Passphrase", parameters[0]))
    assert len(set(keys)) == len(keys)
    assert {len(key) for key in keys} == {32}
    assert derive_wrapping_key(b"passphrase", small()) == keys[0]


def test_repr_shows_no_salt() -> None:
    """Parameters in a log tell only what a key slot shows a reader at a glance."""
    assert SALT.hex() not in repr(small())
    assert repr(SALT) not in repr(small())
