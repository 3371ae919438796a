"""The names of the benchmarks. Standard library only, since the command line shows them in its help."""

CASES = (
    "image_fitting", "silhouette", "texture", "table2", "table3", "table4", "table5", "figure9", "joint", "shading",
    "material", "environment", "convolution", "matmul", "slice", "blur", "chain", "pyramid",
)  # fmt: skip
PREDICTED = (*CASES, "fit")
"""Cases of `dressi bench model`."""
