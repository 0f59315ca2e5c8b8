"""Ready-made policies and guards, one file for each kind. Plain Python: an application's own need nothing from here.

Policies decide: `Allow`, `Deny`, `RequireApproval`. Guards only narrow: `DenyTools`, `OnlyFor`, `Required`, `OneOf`,
`Range`, `Pattern`. Compositions: `Guarded` (guards, then a policy), `ByTool` (the first rule that fits),
`ByEnvironment` (by the agent's label), `Strictest` (all of them agree).

Everything is checked when it is built: what is wrong raises TypeError or ValueError with a sentence that says the fix.
"""

from .allow import Allow
from .approval import RequireApproval
from .by_environment import ByEnvironment
from .by_tool import ByTool
from .deny import Deny, DenyTools
from .guarded import Guarded
from .one_of import OneOf
from .only_for import OnlyFor
from .pattern import Pattern
from .range import Range
from .required import Required
from .strictest import Strictest

__all__ = [
    "Allow",
    "ByEnvironment",
    "ByTool",
    "Deny",
    "DenyTools",
    "Guarded",
    "OneOf",
    "OnlyFor",
    "Pattern",
    "Range",
    "RequireApproval",
    "Required",
    "Strictest",
]
