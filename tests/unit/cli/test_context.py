"""The world outside, and that nothing else reads it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chunkvault.cli.context import Context, text
from chunkvault.errors import UsageError


def context(**variables: str) -> Context:
    return Context(environment=variables, hostname="h", username="u", clock_ns=lambda: 0)


def test_an_option_wins_over_the_variable() -> None:
    world = context(CHUNKVAULT_VAULT="/from/variable")
    assert world.vault_location("/from/option") == "/from/option"
    assert world.vault_location(None) == "/from/variable"


@pytest.mark.parametrize("variables", [{}, {"CHUNKVAULT_VAULT": ""}])
def test_no_vault_named_is_a_usage_error_that_says_how(variables: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="--vault"):
        context(**variables).vault_location(None)


def test_the_cache_may_be_named_by_option_or_variable() -> None:
    assert context(CHUNKVAULT_CACHE_DIR="/c").cache_dir(None) == Path("/c")
    assert context(CHUNKVAULT_CACHE_DIR="/c").cache_dir("d") == Path.cwd() / "d"


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: Path("~/.cache/x"))
    assert context().cache_dir(None) is None


def test_text_is_utf8_whatever_the_locale_made_of_it() -> None:
    assert text(os.fsdecode("ä".encode())) == "ä"
    with pytest.raises(UsageError, match="UTF-8"):
        text("\udcfe")


@pytest.mark.parametrize(
    ("term", "plain"), [(None, True), ("", True), ("dumb", True), ("xterm-256color", False)]
)
def test_a_dumb_terminal_gets_plain_lines(term: str | None, plain: bool) -> None:
    world = context() if term is None else context(TERM=term)
    assert world.plain_terminal is plain
