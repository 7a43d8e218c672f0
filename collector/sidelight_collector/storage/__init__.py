"""Where windows are kept: object stores behind one protocol, and the tables and segments inside them."""
