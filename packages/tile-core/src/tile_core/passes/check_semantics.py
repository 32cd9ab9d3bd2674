from dataclasses import dataclass
from typing import ClassVar
@dataclass(frozen=True)
class CheckSemantics:
    name: ClassVar[str]="check_semantics"
    def __call__(self, func, context): return func
