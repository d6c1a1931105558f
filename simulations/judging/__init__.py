"""Judging, the same for run, sweep, audit and deploy: attack, score, gate, findings."""
