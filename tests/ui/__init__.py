"""Tests that use the product as a person does: the real ``make ui``, and a browser."""
