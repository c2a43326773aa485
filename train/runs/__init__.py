"""The files that a training leaves behind in a folder, and the page that shows it. None of this needs PyTorch."""
