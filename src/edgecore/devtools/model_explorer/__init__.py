"""Extension of Google's Model Explorer that opens and profiles `.pte` files.

    model-explorer model.pte --extensions=edgecore.devtools.model_explorer

Model Explorer imports the module `main` and offers its classes. Only `main` imports `model_explorer`.
"""
