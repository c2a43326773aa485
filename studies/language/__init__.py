"""Language models in folders as Hugging Face writes them: text that they continue, and how well they predict tokens."""
