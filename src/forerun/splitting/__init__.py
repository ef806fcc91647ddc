"""Run one convolutional network on several small devices, exactly or decoupled.

A network is an ONNX file. `graph` reads it, a `layout` says which device computes what of each
tensor, `cut` writes a package for each device, and `device/` is what runs there. Networks that are
made to be split (`networks`, `decouple`) are trained with PyTorch and exported; nothing else here
needs it.
"""
