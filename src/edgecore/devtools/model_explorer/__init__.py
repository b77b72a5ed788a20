"""Google's Model Explorer: an extension that opens and profiles `.pte` files, and `visualize` for programs in memory.

    model-explorer model.pte --extensions=edgecore.devtools.model_explorer

Model Explorer imports the module `main` and offers its classes. Importing this package imports no `model_explorer`.
"""

from edgecore.devtools.model_explorer.visualize import visualize

__all__ = ["visualize"]
