"""Where files are cut, and small ones joined. Pure: bytes in, chunks out, no I/O."""
