"""Takes the place of torch, which SkyRL's JAX backend names only in annotations of images."""


class Tensor:
    pass


class dtype:
    pass
