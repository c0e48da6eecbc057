"""Tests; a package so that helpers such as ``tests.core.hands`` have one import path."""
