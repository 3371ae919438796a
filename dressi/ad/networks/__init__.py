"""Networks without modules: layers are functions of a dict of parameters and an image.

    rng = np.random.default_rng(0)
    net = networks.parameters(networks.mlp_init(rng, (2, 32, 3)))         # arrays become Variables with names
    color = networks.mlp(net, uv, F.relu, F.sigmoid)                      # a graph, FLOAT of 3 channels
    ad.set_optimizer(adamw(0.01), networks.variables(net))
    networks.save_safetensors("net.safetensors", networks.arrays(net, ad))

Values are images of channels: a texel is a pixel, or a token of a sequence (T, 1). Activations are in F:
relu, gelu, silu, softplus, sigmoid, tanh, leaky_relu, softmax. Examples run after ``import numpy as np`` and
``from dressi import *``.

The names by file of ``dressi/ad``:
"""

# ruff: noqa: F403, I001
from .parameters import *
from .layers import *
from .layers import *
from .parameters import *

from ..graph.names import gather as _gather

_gather(globals())
