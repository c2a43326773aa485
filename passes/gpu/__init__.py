"""The backend of GPUs: a planned program as Python text, whose kernels are Triton's and Gluon's."""
