from typing import Any

torch: Any
ext: Any
