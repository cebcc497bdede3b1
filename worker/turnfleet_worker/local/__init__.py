"""A whole fleet on this machine, for people: an embedded Redis, child processes that end with us, signals."""
