"""The bytes of a vault: pure encoders and decoders, without I/O, randomness or secrets.

docs/format.md is the norm. Decoders raise `chunkvault.errors.FormatError` and nothing else.
"""
