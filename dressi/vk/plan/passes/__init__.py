"""The passes of the compiler, a file for each subject. ``compiler.PASSES`` lists them in their order."""
