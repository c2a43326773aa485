from typing import Any

_mlir_libs: Any
