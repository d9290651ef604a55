"""The file system a backup reads and a restore writes; nothing about vaults."""
