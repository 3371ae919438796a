"""Networks without modules: layers are functions of a dict of parameters and an image.

    rng = np.random.default_rng(0)
    net = networks.parameters(networks.mlp_init(rng, (2, 32, 3)))         # arrays become Variables with names
    color = networks.mlp(net, uv, F.relu, F.sigmoid)                      # a graph, FLOAT of 3 channels
    ad.set_optimizer(adamw(0.01), networks.variables(net))
    networks.save_safetensors("net.safetensors", networks.arrays(net, ad))

Values are images of channels: a texel is a pixel, or a token of a sequence (T, 1). Activations are in F: relu, gelu, silu,
softplus, sigmoid, tanh, leaky_relu, softmax. Examples run after ``import numpy as np`` and ``from dressi import *``.

parameters: trees of arrays, and of Variables
    parameters, variables, arrays, assigned, flat, nested

layers
    linear, convolution, mlp, attention, self_attention, windows, from_windows

normalisations
    batch_norm, batch_statistics, group_norm, layer_norm, rms_norm

encodings of positions
    fourier_features, sinusoidal_positions, hash_grid

first weights
    linear_init, convolution_init, mlp_init, norm_init, attention_init, hash_grid_init, kaiming_normal, kaiming_uniform,
    xavier_normal, xavier_uniform

files
    load_safetensors, save_safetensors
"""

from .attention import attention, from_windows, self_attention, windows
from .encodings import fourier_features, sinusoidal_positions
from .hash_grid import hash_grid, hash_grid_init
from .initialise import (
    attention_init,
    convolution_init,
    kaiming_normal,
    kaiming_uniform,
    linear_init,
    mlp_init,
    norm_init,
    xavier_normal,
    xavier_uniform,
)
from .layers import convolution, linear, mlp
from .normalisation import batch_norm, batch_statistics, group_norm, layer_norm, rms_norm
from .parameters import arrays, assigned, flat, nested, parameters, variables
from .safetensors import load_safetensors, save_safetensors

__all__ = [
    "arrays",
    "assigned",
    "attention",
    "attention_init",
    "batch_norm",
    "batch_statistics",
    "convolution",
    "convolution_init",
    "flat",
    "fourier_features",
    "from_windows",
    "group_norm",
    "hash_grid",
    "hash_grid_init",
    "kaiming_normal",
    "kaiming_uniform",
    "layer_norm",
    "linear",
    "linear_init",
    "load_safetensors",
    "mlp",
    "mlp_init",
    "nested",
    "norm_init",
    "parameters",
    "rms_norm",
    "save_safetensors",
    "self_attention",
    "sinusoidal_positions",
    "variables",
    "windows",
    "xavier_normal",
    "xavier_uniform",
]
