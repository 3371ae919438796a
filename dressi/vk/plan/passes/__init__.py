"""The passes of the compiler, one file each. ``compiler.PASSES`` lists them in their order."""
