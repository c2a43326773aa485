"""The built-in operators as circuits, of a few reusable pieces: decode, multiply, add, round and encode."""
