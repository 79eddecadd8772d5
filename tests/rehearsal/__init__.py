"""Rehearsals under test, each a story that a user could watch."""
