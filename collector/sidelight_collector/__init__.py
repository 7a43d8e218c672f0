"""The collector: takes windows in, keeps them in an object store and answers questions about them."""
