"""What runs on a board: one device's part of a network, with onnxruntime and numpy alone.

Nothing here imports anything else of forerun, and imports among its modules are relative: the
folder works when it is copied to a board by itself (`python3 device PACKAGE …`). Boards are old, so
it keeps to what Python 3.9 knows.
"""
