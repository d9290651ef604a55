"""Streams: one JSON object whatever happens, and no control characters on stderr."""

from __future__ import annotations

import io
import json
import sys

import pytest

from chunkvault.cli.output import Messages, Output


def ascii_stdout(monkeypatch: pytest.MonkeyPatch) -> io.TextIOWrapper:
    """Called in the test, because pytest puts its own stdout in place after the fixtures."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stdout", stream)
    return stream


def written(stream: io.TextIOWrapper) -> bytes:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue()


def test_an_ascii_stdout_takes_any_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = ascii_stdout(monkeypatch)
    Output(as_json=False).line("ä\udcfe")
    assert written(stdout) == b"\\xe4\\udcfe\n"


def test_json_is_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = ascii_stdout(monkeypatch)
    output = Output(as_json=True)
    output.finish({"ok": True, "name": "ä"})
    output.finish({"ok": False})
    assert json.loads(written(stdout)) == {"ok": True, "name": "ä"}


def test_a_list_that_fails_halfway_is_still_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = ascii_stdout(monkeypatch)
    output = Output(as_json=True)
    output.begin_list("ls", "entries")
    output.item({"path": "/a"})
    output.item({"path": "/b"})
    output.finish({"command": "ls", "ok": False, "exit_code": 1})
    value = json.loads(written(stdout))
    assert value["entries"] == [{"path": "/a"}, {"path": "/b"}]
    assert (value["command"], value["ok"], value["exit_code"]) == ("ls", False, 1)


def test_an_open_list_without_items_is_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = ascii_stdout(monkeypatch)
    output = Output(as_json=True)
    output.begin_list("ls", "entries")
    output.finish({})
    assert json.loads(written(stdout)) == {"command": "ls", "entries": []}


def test_without_json_no_object_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = ascii_stdout(monkeypatch)
    Output(as_json=False).finish({"ok": True})
    assert written(stdout) == b""


def test_a_message_is_one_line_without_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Messages().error("no \x1b[31mfile\nhere\r")
    assert capsys.readouterr().err == "chunkvault: error: no \\x1b[31mfile\\nhere\\r\n"


def test_quiet_drops_notes_and_keeps_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    messages = Messages()
    messages.quiet = True
    messages.note("chunkvault: a note")
    messages.warning("a warning")
    assert capsys.readouterr().err == "chunkvault: warning: a warning\n"


def test_lines_go_above_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    above: list[str] = []

    class Bar:
        def print_above(self, text: str) -> None:
            above.append(text)

    messages = Messages()
    messages.bar = Bar()
    messages.warning("w")
    assert above == ["chunkvault: warning: w"]
    assert capsys.readouterr().err == ""


def test_a_stderr_that_is_gone_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    Messages().error("nobody hears this")
