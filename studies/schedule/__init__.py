"""Operations of a program side by side: which could run at the same time, in what time and memory (docs/streams.md)."""
