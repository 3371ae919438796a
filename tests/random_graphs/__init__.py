"""Random legal graphs, and whether what a device makes of them is what they mean.

`python -m random_graphs --count 1000 --device llvmpipe --out found.jsonl` from the folder of the tests runs many.
"""
