"""A small shop in two releases, for pictures with something to tell: the second does more per request."""
