"""The papers' tables and figures, tested: which claim, by which experiment, with what outcome.

A paper has one file in `papers/` with two tuples. `EXPERIMENTS` says what is run: a scenario, its
profile, settings and seeds. `ITEMS` has a row for every table and figure: the claim, the paper's
figures, and either an experiment with a judge or the reason why it is not done. Nothing is built a
second time here: experiments go through `run`, `sweep` and their judging.

An experiment's cells (a seed and a variant) are worked on one by one and kept, so that a command
that was stopped goes on where it was. Their rows become `measured/<experiment>.csv`. Judges read
nothing but these rows, and `papers.md` is made of items, judges and CSV files alone.
"""
