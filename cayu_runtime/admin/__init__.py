"""Every table, to read: by auditors, in their active tenant, changed by nobody (DESIGN §1, §8).

`listing` is the list of one table, `reading` one row and what hangs on it, `showing` one value. The other files say,
table by table, what can be searched and what is linked.
"""

from . import runs  # isort: skip  (the order in which they are read)
from . import effects  # isort: skip
from . import reviews  # isort: skip
from . import deployment  # isort: skip

__all__ = ["deployment", "effects", "reviews", "runs"]
