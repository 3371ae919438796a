"""Hessian-vector products of the renderer's Functions and of losses by everything that a fit optimises."""

from collections.abc import Sequence

import numpy as np
import pytest
import soft_cases as sc
from render_examples import EXAMPLES
from second_derivatives import differences, directions, forward, reverse, weighted, worst

from dressi import FLOAT, IVEC3, VEC2, VEC3, F, GraphError, Variable, gradient, jvp
from dressi.ad.graph.evaluation import evaluate
from dressi.render import l2, lambert, list_leaf, poses, texture_colour, to_clip, vertex_normals
from dressi.render.cameras import Camera, Cameras
from dressi.render.forms.hard_soft_ras import FORMS, SOFT_FORMS, hard_soft_ras
from dressi.render.objectives import sparse

SIZE = (24, 20)
CASES = sc.cases()
Loss = tuple[Variable, Sequence[Variable]]


def image(vtype=FLOAT, batch: int = 1, seed: int = 0) -> Variable:
    values = np.random.default_rng(seed).uniform(size=(batch, SIZE[1], SIZE[0], *vtype.shape))
    return Variable(vtype, SIZE, batch, data=values)


def values_of(vtype, like: Variable, seed: int, name: str) -> Variable:
    values = np.random.default_rng(seed).uniform(size=(1, *like.shape[1:3], *vtype.shape))
    return Variable(vtype, like.size, data=values, name=name)


def drawn(mesh: str, form: str):
    position, faces = CASES[mesh].variables()
    options = {"radius": 0.1} if form in SOFT_FORMS else {}
    found = hard_soft_ras(position, faces, size=SIZE, face_count=len(CASES[mesh].faces), form=form, **options)
    return position, found


def silhouette(mesh: str, form: str) -> Loss:
    position, found = drawn(mesh, form)
    return l2(found.silhouette, image(), weight=image(seed=1), reduction="sum"), [position]


def radius_and_softness(mesh: str, form: str) -> Loss:
    position, faces = CASES[mesh].variables()
    radius, sigma = (Variable(name=n, data=v) for n, v in (("radius", 0.1), ("sigma", 0.02)))
    softened = "sigma" in SOFT_FORMS[form].options
    given = [sigma] if softened else [radius]
    options = {"radius": 0.1, "sigma": sigma} if softened else {"radius": radius}
    found = hard_soft_ras(position, faces, size=SIZE, face_count=len(CASES[mesh].faces), form=form, **options)
    return l2(found.silhouette, image(), reduction="sum"), [position, *given]


def colours(mesh: str, form: str) -> Loss:
    """Colours at the vertices, blended over a background."""
    position, found = drawn(mesh, form)
    colour = values_of(VEC3, position, 2, "colour")
    background = Variable(VEC3, name="background", data=(0.1, 0.5, 0.9))
    picture = found.blend([s.interpolate(colour) for s in found.surfaces], background)
    return l2(picture, image(VEC3), reduction="sum"), [position, colour, background]


def shading(mesh: str, form: str) -> Loss:
    position, found = drawn(mesh, form)
    normals = vertex_normals(position.xyz, found.mesh.faces)
    light = Variable(VEC3, name="light", data=(0.3, -0.5, -0.8))
    picture = found.blend([lambert(1.0, s.interpolate(normals), light, ambient=0.2) for s in found.surfaces])
    return l2(picture, image(VEC3), reduction="sum"), [position, light]


def texture(mesh: str, form: str) -> Loss:
    position, found = drawn(mesh, form)
    uvs = values_of(VEC2, position, 3, "uvs")
    texels = Variable(VEC3, (5, 4), name="texture", data=np.random.default_rng(4).uniform(size=(1, 4, 5, 3)))
    shaded = [texture_colour(texels, s.interpolate(uvs), s.face) for s in found.surfaces]
    return l2(found.blend(shaded), image(VEC3), reduction="sum"), [position, uvs, texels]


def pose(mesh: str, form: str) -> Loss:
    """Rotation, translation and focal length of two cameras, and the vertices that both see."""
    points, faces = sc.icosphere(1)
    posed = poses(
        Cameras([Camera.perspective(45, SIZE, (0.4 * k, 0.5, 3.0), (0, 0, 0)) for k in range(2)]), (0, 0, 0)
    )
    for k, leaf in enumerate((posed.rotation, posed.translation, posed.focal)):
        leaf.data = np.random.default_rng(k).uniform(-0.1, 0.1, leaf.shape)
    vertices = list_leaf("vertices", VEC3, points * (1.0, 0.8, 1.1))
    face_list = list_leaf("faces", IVEC3, faces)
    options = {"radius": 0.1} if form in SOFT_FORMS else {}
    clip = to_clip(vertices, posed.matrices)
    found = hard_soft_ras(clip, face_list, size=SIZE, face_count=len(faces), form=form, **options)
    wrt = [posed.rotation, posed.translation, posed.focal, vertices]
    return l2(found.silhouette, image(batch=2), reduction="sum"), wrt


OWN = [form for form in FORMS if form != "edges"]
"""Forms whose derivative is that of their own picture. That of the edges form is of pictures with many samples a pixel."""
CHECKS = [
    *((silhouette, mesh, form) for mesh in ("acute", "sphere", "near plane") for form in OWN),
    *((colours, "near plane", form) for form in OWN),
    *((radius_and_softness, "overlapping", form) for form in SOFT_FORMS),
    *((loss, "sphere", form) for loss in (texture, pose) for form in ("outer", "face")),
    *((shading, "sphere", form) for form in ("outer",)),
]
# Pictures that drivers draw alike: no pixel centre lies within their rounding of an edge.
ON_DEVICES = [
    (silhouette, "near plane", "outer"),
    (texture, "near plane", "outer"),
]


def name(value) -> str:
    return value if isinstance(value, str) else value.__name__


@pytest.mark.parametrize("build, mesh, form", CHECKS, ids=name)
def test_products_with_the_hessian_are_differences_of_the_gradient(build, mesh, form):
    loss, wrt = build(mesh, form)
    along = directions(wrt)
    expected = differences(loss, wrt, along)
    assert all(np.abs(e).max() > 1e-3 for e in expected)
    assert worst(evaluate(forward(loss, wrt, along)), expected) < 1e-5
    assert worst(evaluate(reverse(loss, wrt, along)), expected) < 1e-5


@pytest.mark.release
@pytest.mark.parametrize("build, mesh, form", ON_DEVICES, ids=name)
@pytest.mark.second_driver("texture-near plane-outer")
def test_products_with_the_hessian_on_devices(run, build, mesh, form):
    loss, wrt = build(mesh, form)
    products = forward(loss, wrt, directions(wrt))
    assert worst(run(products), evaluate(products)) < 0.01


SMOOTH = [
    pytest.param(build, id=f"{cls.__name__}-{k}")
    for cls, builds in EXAMPLES.items()
    for k, build in enumerate(builds)
    if build().wrt
]


@pytest.mark.parametrize("build", SMOOTH)
def test_functions_have_second_derivatives(build):
    example = build()
    loss, wrt = weighted(example.output), example.wrt
    along = directions(wrt)
    expected = differences(loss, wrt, along)
    for mode in (forward, reverse):
        assert worst(evaluate(mode(loss, wrt, along)), expected) < 1e-5


REFUSING = [pytest.param(cls, id=cls.__name__) for cls in EXAMPLES if cls.no_derivative]


@pytest.mark.parametrize("cls", REFUSING)
def test_what_chooses_says_that_it_has_no_derivative(cls):
    for build in EXAMPLES[cls]:
        output = build().output
        inputs = [x for x in output.creator.inputs if not x.vtype.is_int]
        with pytest.raises(GraphError, match=rf"{cls.__name__}\(.*{cls.no_derivative}"):
            gradient(F.sum(F.sum_components(output)), inputs)
        with pytest.raises(GraphError, match=rf"{cls.__name__}\(.*{cls.no_derivative}"):
            jvp([output], inputs, [F.zeros_like(x) for x in inputs])


@pytest.mark.parametrize("kind", [sparse.SparseProduct, sparse.SparseDifference])
def test_entries_of_a_matrix_have_no_derivative(kind):
    output = EXAMPLES[kind][0]().output
    entries = output.creator.inputs[2]
    with pytest.raises(GraphError, match=f"{kind.__name__}.*entries of the matrix"):
        gradient(F.sum(F.sum_components(output)), [entries])
    with pytest.raises(GraphError, match=f"{kind.__name__}.*entries of the matrix"):
        jvp([output], [entries], directions([entries]))
