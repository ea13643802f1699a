"""The laboratory: the paper's experiments, run many trials at once, stored, resumed and reported.

A trial flows through the files in this order::

    paper/sweep -> which trials      protocol -> what a trial is     datasets -> images and labels
    engine      -> a stack of trials runner   -> stacks until done   store    -> one row a trial
    report      -> tables, figures, one HTML page

Only torch, numpy and the core are imported at the top of these modules; pandas, pooch, matplotlib,
typer and rich are imported where they are used, so that the engine runs on a bare GPU machine.

Imports from `plots` and the rooms above it.
"""
