"""Child processes and other devices. Imports no torch, and nothing of edgecore but its errors.

- `command`: run a command to its end, within limits
- `worker`: a Python process that answers requests
- `device`: a machine that runs commands, over ssh, over adb or here
"""
