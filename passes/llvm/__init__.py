"""The last passes before LLVM."""
