"""Stores around a store: behaviour added without the back end knowing."""
