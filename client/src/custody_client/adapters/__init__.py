"""Adapters to what programs call models with, each optional: nothing of an SDK is imported before its adapter is used.

Whatever fails in one is counted and logged once; the call goes on, and its answer is what it would have been.
"""
