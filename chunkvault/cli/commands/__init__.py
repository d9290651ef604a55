"""One module for each command; `chunkvault.cli.app` imports the one that is asked for."""
