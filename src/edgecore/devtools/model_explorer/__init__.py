"""Extension of Google's Model Explorer: it opens `.pte` files, and profiles them.

    model-explorer model.pte --extensions=edgecore.devtools.model_explorer

The server imports `main`, whose classes then are in its menus. Only `main` imports `model_explorer`.
"""
