"""The contract of a claim: rule, verdict, finding, and what runs it.

`thermostats.claims()` lists the claims: the package answers to a call, since a function of the name
has no other place.
"""

import sys
from types import ModuleType
from typing import Any


class _Claims(ModuleType):
    def __call__(self, *args: Any, **named: Any) -> Any:
        from thermostats.claims.run import claims  # noqa: PLC0415
        from thermostats.next_steps import wrap_function  # noqa: PLC0415

        return wrap_function(claims)(*args, **named)


sys.modules[__name__].__class__ = _Claims
