"""What tests of chunkvault and of other back ends share: contract rules and stores that fail."""
