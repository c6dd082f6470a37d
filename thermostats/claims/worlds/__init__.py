"""Worlds in which the truth is known: a signal and errors, to judge rules by.

A world puts outcomes in the place of the measured ones, on the rows that a finding reads; nothing that models fit is
used. Its signal says what is true, its errors (`claims/noise.py`) what hides it. A claim names one family of worlds:

| the rule compares | worlds | file |
|---|---|---|
| a correlation or slope over models | `worlds_of_line` | `lines.py` |
| slopes inside models, over prompts | `worlds_of_slopes` | `lines.py` |
| an exponent with a margin | `worlds_of_exponent` | `lines.py` |
| shares of variance of several causes | `worlds_of_shares` | `causes.py` |
| the same where two causes are alike | `worlds_at` | `boundary.py` |
| a share along the tree of descent | `worlds_of_descent` | `causes.py` |
| a mean with a number | `worlds_of_mean` | `levels.py` |
| a difference with 0, of all rows or of some | `worlds_of_shift` | `levels.py` |
| every model with a bound | `worlds_of_bound` | `levels.py` |
| values by prompt with a number for each unit | `worlds_of_levels` | `levels.py` |
| variance between models with that between prompts | `worlds_of_parts` | `levels.py` |
| the share of models where something holds | `worlds_of_share` | `levels.py` |
| that share among some models with the rest | `worlds_of_contrast` | `levels.py` |

A rule that none fits has a family of its own: `Worlds` (`world.py`) with a function that makes the world of a size and
of nuisances (for example `studies/nursery/crossed_worlds.py`). `claims/levels.py` tries a rule in all of them.
"""

from thermostats.claims.worlds.boundary import Boundary, worlds_at
from thermostats.claims.worlds.causes import worlds_of_descent, worlds_of_shares
from thermostats.claims.worlds.levels import (
    worlds_of_bound,
    worlds_of_contrast,
    worlds_of_levels,
    worlds_of_mean,
    worlds_of_parts,
    worlds_of_share,
    worlds_of_shift,
)
from thermostats.claims.worlds.lines import worlds_of_exponent, worlds_of_line, worlds_of_slopes
from thermostats.claims.worlds.world import TOTAL, World, Worlds

__all__ = [
    "TOTAL",
    "Boundary",
    "World",
    "Worlds",
    "worlds_at",
    "worlds_of_bound",
    "worlds_of_contrast",
    "worlds_of_descent",
    "worlds_of_exponent",
    "worlds_of_levels",
    "worlds_of_line",
    "worlds_of_mean",
    "worlds_of_parts",
    "worlds_of_share",
    "worlds_of_shares",
    "worlds_of_shift",
    "worlds_of_slopes",
]
