"""What edge-doctor looks at: everything that a recording machine needs and that can be wrong with it.

One module per subject, each with functions from settings to findings; `checks` lists them, `isolated` runs each in a
process of its own.
"""
