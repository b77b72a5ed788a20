"""The edge dialect: its operators, its dtype rules, its verifier, and functions that edit its graphs in place."""
