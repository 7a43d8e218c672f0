"""`sidelight compare`: what differs between two sides, in words and numbers, and whether that is allowed."""
