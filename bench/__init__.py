"""Benchmarks: chunkvault and its rivals on the same seeded data, in turn, every restore compared.

What lives here: development tools that run the installed commands from outside. What may not: any
import of chunkvault (a bench that shares code with what it measures can share its mistakes), and
any figure that no result file backs.
"""

from __future__ import annotations


class BenchError(Exception):
    """The bench cannot go on; one line that says what failed, on what, and what to do next."""
