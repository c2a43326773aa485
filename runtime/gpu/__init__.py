"""Programs for GPUs: their Python text is loaded, and their kernels run, or are emulated where no GPU is."""
