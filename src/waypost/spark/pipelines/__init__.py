"""Pipelines that operators run: functions from and to DataFrames, and a written report of what they found.

Each is a module with the name of its command, `waypost spark NAME`. The columns are those of waypost.arrow.schema.
"""
