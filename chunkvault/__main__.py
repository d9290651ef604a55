"""Where the program starts: ``chunkvault`` and ``python -m chunkvault``.

``--version`` is answered here, before anything heavy is imported. Nothing else may live here.
"""

from __future__ import annotations

import sys

from chunkvault import __version__


def main() -> None:
    """Run the command line and end the process with its exit code."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        sys.stdout.write(f"chunkvault {__version__}\n")
        return
    from chunkvault.cli.main import run  # noqa: PLC0415 - 60 ms that --version need not wait for

    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
