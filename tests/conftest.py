"""What all tests share: the --slow switch, hypothesis profiles, and no settings from outside.

Slow tests are left out unless asked for, and the run says so; nothing else is ever left out.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "chunkvault",
    deadline=None,  # the machine's load is not what is tested
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("chunkvault")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests that take minutes, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A test sees neither the vault nor the cache of whoever runs it."""
    for name in list(os.environ):
        if name.startswith("CHUNKVAULT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
