"""`sidelight doctor`: whether what lies in a store is whole, what it costs, and mending what can be."""
