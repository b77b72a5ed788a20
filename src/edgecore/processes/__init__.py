"""Child processes and remote devices. Imports no torch, and from edgecore only its errors.

- `command`: run a command to its end, within limits
- `worker`: a Python process that answers requests
- `device`: a machine that runs commands, over ssh, over adb, or this machine
- `interrupts`: Ctrl-C and other signals that end the command line
"""
