"""Real services whose handlers are known, and recordings of them."""
