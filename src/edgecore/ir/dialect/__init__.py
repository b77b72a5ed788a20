"""The rules of the edge dialect: operators, dtypes, layouts, and the verifier that checks them."""
