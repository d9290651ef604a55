"""Where vaults live: the contract, and one module for each kind of location."""
