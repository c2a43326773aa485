"""Commands for programs that run without Python."""
