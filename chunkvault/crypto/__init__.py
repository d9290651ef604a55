"""Keys, sealing and passphrases: pure functions over the libraries' primitives, none of our own."""
