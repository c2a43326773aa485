"""The compiler: formats, operators, the dialect, the pipeline and code generation."""
