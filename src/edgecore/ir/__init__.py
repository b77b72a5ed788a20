"""The edge dialect: its operators, its verifier, and editing its graphs in place."""
