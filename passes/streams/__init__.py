"""Parts of @main that do not depend on each other, side by side."""
