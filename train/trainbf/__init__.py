"""TrainBF: training in bfloat16 alone, after Xie et al.; one file for each of its techniques."""
