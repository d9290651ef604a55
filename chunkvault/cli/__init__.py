"""The command line: the outermost layer, and the only one that reads the environment."""
