"""The names of the benchmarks. Standard library only, since the command line shows them in its help."""

CASES = (
    "image_fitting", "silhouette", "texture", "table2", "table3", "table4", "table5", "figure9", "joint", "shading",
    "material", "environment", "convolution", "matmul", "slice", "blur", "chain", "pyramid",
)  # fmt: skip
PREDICTED = (*CASES, "fit")
"""Cases of `dressi bench model`."""
RIVALS = {
    "silhouette": ("deodr", "nvdiffrast"),
    "table4": ("deodr", "nvdiffrast"),
    "texture": ("nvdiffrast",),
    "table5": ("nvdiffrast",),
    "convolution": ("torch", "halide"),
    "matmul": ("numpy", "torch"),
    "slice": ("torch", "halide"),
    "blur": ("torch",),
    "chain": ("torch",),
    "pyramid": ("torch",),
}
"""The peers of the cases that have any."""
TABLES = ("table2", "table3", "table4", "table5")
"""The cases of ``bench tables``."""


def peers_text() -> str:
    """Each peer with its cases, for the help: "deodr (silhouette, table4), ..."."""
    cases: dict[str, list[str]] = {}
    for case, names in RIVALS.items():
        for name in names:
            cases.setdefault(name, []).append(case)
    return ", ".join(f"{name} ({', '.join(of)})" for name, of in cases.items())
