"""Helpers that several test folders share: servers and processes of their own."""
