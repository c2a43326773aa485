"""What mkdocs asks for while it builds the site: pages that are generated, and docstrings as they are shown."""
