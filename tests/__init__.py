"""The tests: unit ones need nothing but this clone, rehearsals build and run the tools."""
