"""Pipelines for operators: functions from and to DataFrames, and a written report of the findings.

Each is a module with the name of its command, `waypost spark NAME`. The columns are those of waypost.arrow.schema.
"""
