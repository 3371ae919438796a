"""Light under the skin: it enters, spreads, and leaves elsewhere.

``profile`` how far it spreads, as sums of Gaussians; ``diffusion`` the irradiance of a mesh over its texture coordinates,
spread by a profile, and light that comes through thin parts. ``bsdf.skin`` shows the result.
"""

from .diffusion import diffused
from .profile import Profile, burley

__all__ = ["Profile", "burley", "diffused"]
