"""How far one invocation walks in the plans that dressi makes of its own optimisations, for the records of GPUs."""

import numpy as np
import pytest

from dressi import FLOAT, IVEC3, VEC3, F, Variable, adam
from dressi.ad.objective import Objective
from dressi.config import shader_text
from dressi.render import adjacency, edge_list, hard_soft_ras, l2, large_steps, list_leaf, ring, to_clip
from dressi.render.cameras.pose import matrices_leaf
from dressi.render.drawing.draw import surface_uv
from dressi.render.mesh.primitives import pear
from dressi.render.surface.screen import rasterize_hard
from dressi.render.surface.texturing import texture_colour
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import PROFILES
from dressi.vk.plan.model.records import RECORDS

MESH = pear(24, 40, 16)


def geometry(views, size):
    """Position and faces as leaves, and the clip positions in a ring of views."""
    position, faces = list_leaf("position", VEC3, MESH.positions), list_leaf("faces", IVEC3, MESH.faces)
    return position, faces, to_clip(position, matrices_leaf(ring(np.zeros(3), 1.0, views, size).matrices))


def silhouette(form):
    def make(views, size):
        position, faces, clip = geometry(views, size)
        edges = None if form == "face" else edge_list(MESH.faces)
        soft = hard_soft_ras(
            clip, faces, size=size, radius=Variable(FLOAT, name="radius"), face_count=len(MESH.faces),
            layers=3 if form == "face" else None, form=form, edges=edges,
        )  # fmt: skip
        return l2(soft.silhouette, Variable(FLOAT, size, views)), position, adam(0.01)

    return make


def texture(views, size):
    _, faces, clip = geometry(views, size)
    table = Variable(VEC3, (size[0] // 2, size[1] // 2), name="texture")
    face = rasterize_hard(clip, faces, size=size, face_count=len(MESH.faces))
    colour = texture_colour(table, surface_uv(MESH, clip, faces, face, size), face)
    return l2(colour, Variable(VEC3, size, views)), table, adam(0.01)


def image_fitting(views, size):
    image = Variable(VEC3, size, name="image")
    return l2(image, Variable(VEC3, size)), image, adam(0.02)


def large_steps_of_a_list(views, size):
    position = list_leaf("position", VEC3, MESH.positions)
    target = F.mean(F.square(position - 0.5))
    return F.sum_components(target), position, large_steps(adjacency(MESH.faces, len(MESH.positions)), 0.01)


MAKERS = {
    **{form: silhouette(form) for form in ("outer", "face", "contour")},
    "texture": texture,
    "image fitting": image_fitting,
    "large steps": large_steps_of_a_list,
}


@pytest.mark.parametrize("name", MAKERS)
def test_no_invocation_walks_farther_than_its_record_allows(name):
    counts = {}
    for views, side in ((1, 256), (8, 256), (8, 2048)):
        loss, parameter, optimizer = MAKERS[name](views, (side, side))
        objective = Objective()
        objective.set_loss(loss, True)
        objective.set_optimizer(optimizer, [parameter], False)
        program = objective.program()
        for record in ("desktop", "data_centre", "tiler"):
            model = RECORDS[record]
            plan = build_plan(program, PROFILES["turing"], shader_text, cost=model)
            assert model.longest_walk == 256
            walks = {s.iterations: str(s) for s in plan.sub_stages}
            assert max(walks) <= 256, walks[max(walks)]
            counts[record, views, side] = len(plan.step.sub_stages)
    for (record, views, side), count in counts.items():
        assert count == counts.get((record, 1, side), count), f"{views} views on {record}"
