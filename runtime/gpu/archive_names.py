"""Names of files in the archive that is the code of a program for GPUs."""

TEXT = "program.py"
CONSTANTS = "constants/{}.npy"
CUDA = "cuda"
"""The name of the target, which a program file says of itself."""
