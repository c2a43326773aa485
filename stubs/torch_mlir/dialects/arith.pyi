from typing import Any

from torch_mlir.dialects._ops import Op

CmpIPredicate: Any
CmpFPredicate: Any

def __getattr__(name: str) -> type[Op]: ...
