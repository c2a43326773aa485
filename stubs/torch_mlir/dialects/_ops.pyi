"""An operation of any dialect, which its class makes of operands and attributes that differ from class to class."""

from typing import Any

from torch_mlir.ir import Block, OpView

class Op(OpView):
    def __init__(self, *arguments: Any, **named: Any) -> None: ...
    @property
    def body(self) -> Block: ...
    def __getattr__(self, name: str) -> Any: ...
