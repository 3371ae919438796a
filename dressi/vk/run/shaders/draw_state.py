"""The fixed functions of a pipeline that draws: how depths are tested and colours are blended."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...plan.substage import Accumulate, ScatterDraw, SubStage


class DrawState(NamedTuple):
    """nearest: only what is nearer than what was drawn before is drawn. again: only where a raster drew anything. added:
    colours are added to what the attachments hold."""

    nearest: bool
    again: bool
    added: bool

    def depth_test(self, vk: Any) -> Any:
        """A scatter that draws again passes where the raster left any depth: it is less than 1 there, that of the draw is 1."""
        compare = vk.VK_COMPARE_OP_GREATER if self.again else vk.VK_COMPARE_OP_LESS
        return vk.VkPipelineDepthStencilStateCreateInfo(
            depthTestEnable=self.nearest or self.again, depthWriteEnable=self.nearest, depthCompareOp=compare
        )

    def blending(self, vk: Any) -> Any:
        """Of one attachment."""
        if not self.added:
            return vk.VkPipelineColorBlendAttachmentState(colorWriteMask=15)
        one, add = vk.VK_BLEND_FACTOR_ONE, vk.VK_BLEND_OP_ADD
        return vk.VkPipelineColorBlendAttachmentState(
            blendEnable=True,
            srcColorBlendFactor=one,
            dstColorBlendFactor=one,
            colorBlendOp=add,
            srcAlphaBlendFactor=one,
            dstAlphaBlendFactor=one,
            alphaBlendOp=add,
            colorWriteMask=15,
        )


def state_of(s: SubStage) -> DrawState:
    """Of the pipeline of a SubStage that draws."""
    return DrawState(s.has_depth, isinstance(s.work, ScatterDraw), isinstance(s.work, Accumulate))
