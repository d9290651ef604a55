"""The verbs: each plans, then applies. See docs/design.md for the layers."""
