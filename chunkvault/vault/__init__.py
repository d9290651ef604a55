"""An open vault: names, sealing, the catalog, the inventory and the lock."""
