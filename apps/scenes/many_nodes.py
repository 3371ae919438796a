"""What a scene of many nodes costs, beside one mesh that shows the same.

    python apps/scenes/many_nodes.py --json many_nodes.json

Ten pears under two lights: as one mesh of one material, plain and with all that the last of these scenes has; as ten nodes whose
materials have one structure (a texture, a roughness and a colour each); and as ten nodes whose materials differ in what they have
(maps of normals and roughness, a coat, sheen, emission, no light at all); as one mesh with holes, and as ten nodes of which half
have holes. A frame sends the camera and draws the colours. A step
sends it and computes the gradient of a loss of colours by a transform that all nodes share, or by the roughness of every node. The
scenes take turns, a frame or a step each, and the processor time of a scene is compared with that of the plain mesh in the same
round: medians over the rounds.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dressi import DressiAD, F, Variable
from dressi.ad.graph.types import MAT4, VEC3
from dressi.ad.transform.gradient import gradient
from dressi.render import Camera, DirectionalLight, Node, PointLight, Scene, primitives, render
from dressi.render.io import write_json
from dressi.render.mesh import Material, Mesh

NODES = 10
LIGHTS = (DirectionalLight((1, 2, 2)), PointLight((0, 3, 4), (9.0, 9.0, 9.0)))
KINDS = ("frame", "place", "material")
RANDOM = np.random.default_rng(2)


def pears(texels: int) -> list[Mesh]:
    """Ten in two rows, each with a texture of its own."""
    pear = primitives.pear(24, 18, texels)
    pear = pear.moved(pear.positions / np.abs(pear.positions).max())
    found = []
    for k in range(NODES):
        at = np.array([(k % 5) * 1.6 - 3.2, (k // 5) * 2.2 - 1.1, 0.0])
        tint = RANDOM.uniform(0.3, 1.0, 3)
        found.append(replace(pear.moved(pear.positions * 0.95 + at), texture=pear.texture * tint))
    return found


def joined(meshes: list[Mesh]) -> Mesh:
    """All as one mesh, with the texture of the first."""
    first = meshes[0]
    starts = np.cumsum([0, *(len(m.positions) for m in meshes)])
    uvs = np.cumsum([0, *(len(m.uvs) for m in meshes)])
    return Mesh(
        np.concatenate([m.positions for m in meshes]),
        np.concatenate([m.faces + at for m, at in zip(meshes, starts, strict=False)]),
        uvs=np.concatenate([m.uvs for m in meshes]),
        uv_faces=np.concatenate([m.uv_faces + at for m, at in zip(meshes, uvs, strict=False)]),
        texture=first.texture,
        material=Material(roughness=0.4),
    )


def everything(mesh: Mesh, texels: int) -> Mesh:
    """The mesh with all that materials of ``different`` have."""
    ones = np.ones((texels, texels))
    flat = np.broadcast_to((0.0, 0.0, 1.0), (texels, texels, 3))
    return replace(
        mesh,
        material=Material(
            roughness=0.5,
            metallic_roughness=np.stack([ones, ones], axis=-1),
            normal=flat,
            occlusion=ones,
            clearcoat=0.8,
            sheen_color=(0.2, 0.3, 0.4),
            emission=(0.1, 0.1, 0.0),
            ior=1.8,
        ),
    )


def same(meshes: list[Mesh]) -> list[Node]:
    return [Node(replace(m, material=Material(roughness=0.2 + 0.06 * k))) for k, m in enumerate(meshes)]


def different(meshes: list[Mesh], texels: int) -> list[Node]:
    """No two have the same parts."""
    bumps = RANDOM.normal(size=(texels, texels, 3)) * 0.2 + (0, 0, 1)
    bumps /= np.linalg.norm(bumps, axis=-1, keepdims=True)
    rough = RANDOM.uniform(0.2, 0.8, (texels, texels))
    both = RANDOM.uniform(0.2, 0.8, (texels, texels, 2))
    materials = (
        Material(roughness=0.4),
        Material(roughness=0.3, normal=bumps),
        Material(metallic_roughness=both),
        Material(roughness=0.5, clearcoat=0.8),
        Material(roughness=0.5, sheen_color=(0.2, 0.3, 0.4)),
        Material(emission=(0.1, 0.1, 0.0)),
        Material(roughness=0.4, occlusion=rough),
        Material(roughness=0.4, ior=1.8),
        Material(roughness=0.3, normal=bumps, occlusion=rough),
        Material(unlit=True),
    )
    return [Node(replace(m, material=one)) for m, one in zip(meshes, materials, strict=True)]


def cut_out(meshes: list[Mesh], texels: int) -> list[Node]:
    """Half of them with holes, of two cutoffs, some without light."""
    alpha = (RANDOM.uniform(size=(texels, texels)) > 0.2) * 1.0
    holes = {"alpha_mode": "mask", "alpha": alpha}
    materials = [
        Material(roughness=0.3 + 0.05 * k, unlit=k % 3 == 2, alpha_cutoff=0.3 + 0.04 * k, **holes)
        if k % 2
        else Material(roughness=0.4, unlit=k % 3 == 2)
        for k in range(NODES)
    ]
    return [Node(replace(m, material=one)) for m, one in zip(meshes, materials, strict=True)]


@dataclass
class Drawn:
    """A scene on a device, of which a round makes one frame or one step."""

    ad: DressiAD
    matrices: Variable
    camera: Camera
    read: str
    build: float = 0.0

    def round(self, number: int) -> float:
        """Its processor time, ms."""
        moved = np.array(self.camera.world_to_clip)
        moved[:, 3] += moved[:, 0] * (1e-3 * (number % 5))
        began = time.process_time()
        self.ad.send(self.matrices, moved.reshape(1, 1, 1, 4, 4))
        self.ad.step()
        self.ad.recv(self.read)  # waits for the step
        return (time.process_time() - began) * 1e3


def drawn(shown: Mesh | Scene, kind: str, form: str, size: int) -> Drawn:
    camera = Camera.perspective(45, (size, size), (0.0, 0.0, 10.0), (0, 0, 0))
    matrices = Variable(MAT4, (1, 1), name="camera", data=camera.world_to_clip.reshape(1, 1, 1, 4, 4))
    place = Variable(MAT4, (1, 1), name="place", data=np.eye(4).reshape(1, 1, 1, 4, 4))
    rough = []
    if kind == "material":
        nodes = shown.nodes if isinstance(shown, Scene) else (Node(shown),)
        rough = [Variable(name=f"rough {k}", data=[[[0.4]]]) for k in range(len(nodes))]
        kept = [
            replace(n.geometry.mesh, material=replace(n.geometry.mesh.material, roughness=0.0)) for n in nodes
        ]
        lit = [not one.material.unlit for one in kept]
        shown = Scene(
            [Node(m, {"roughness": r} if ok else None) for m, r, ok in zip(kept, rough, lit, strict=True)]
        )
        rough = [r for r, ok in zip(rough, lit, strict=True) if ok]
    began = time.perf_counter()
    moves = {} if kind != "place" else {"to_world": place}
    picture = render(shown, matrices, size=(size, size), light=LIGHTS, form=form, **moves)
    ad = DressiAD()
    if kind == "frame":
        ad.set_output("colour", picture.colour)
        ad.set_output("mean", F.mean(picture.colour))
    else:
        goal = Variable(VEC3, (size, size), name="goal", data=np.full((1, size, size, 3), 0.3))
        loss = F.sum(F.square(F.length(picture.colour - goal)))
        for k, slope in enumerate(gradient(loss, [place] if kind == "place" else rough)):
            ad.set_output(f"slope {k}", slope)
    found = Drawn(ad, matrices, camera, "mean" if kind == "frame" else "slope 0")
    found.round(0)
    found.build = time.perf_counter() - began
    return found


def measure(kind: str, form: str, size: int, rounds: int, texels: int, only: str) -> dict:
    meshes = pears(texels)
    scenes: dict[str, Callable[[], Mesh | Scene]] = {
        "one mesh": lambda: joined(meshes),
        "one mesh with everything": lambda: everything(joined(meshes), texels),
        "same structure": lambda: Scene(same(meshes)),
        "different structure": lambda: Scene(different(meshes, texels)),
        "one mesh with holes": lambda: replace(
            joined(meshes), material=cut_out(meshes, texels)[1].geometry.mesh.material
        ),
        "cut out": lambda: Scene(cut_out(meshes, texels)),
    }
    shown = {
        name: drawn(make(), kind, form, size)
        for name, make in scenes.items()
        if only in name or name == "one mesh"
    }
    spent = {name: [] for name in shown}
    for number in range(rounds + 3):
        for name, one in shown.items():
            spent[name].append(one.round(number))
    found = {}
    for name, one in shown.items():
        ratios = np.array(spent[name][3:]) / np.array(spent["one mesh"][3:])
        found[name] = {
            "ms": float(np.median(spent[name][3:])),
            "ratio": float(np.median(ratios)),
            "build s": one.build,
            "functions": len(one.ad.plan.program.functions),
            "substages": sum(
                len(stage.sub_stages)
                for part in (one.ad.plan.static, one.ad.plan.step)
                for stage in part.stages
            ),
        }
        one.ad.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=256, help="pixels along each side")
    parser.add_argument("--texels", type=int, default=64, help="along each side of a texture")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--form", default="edges", help="of steps; frames are hard")
    parser.add_argument("--only", default="", help="scenes whose names have this, beside the one mesh")
    parser.add_argument("--json", type=Path, help="file for the results")
    given = parser.parse_args()
    found = {}
    for kind in given.kinds:
        form = "hard" if kind == "frame" else given.form
        found[kind] = measure(kind, form, given.size, given.rounds, given.texels, given.only)
        for name, row in found[kind].items():
            print(
                f"{kind}, {name}: {row['ms']:.1f} ms, {row['ratio']:.2f} times one mesh; {row['functions']} functions,"
                f" {row['substages']} passes, built in {row['build s']:.1f} s",
                flush=True,
            )
    if given.json:
        write_json(given.json, {"size": given.size, "rounds": given.rounds, "form": given.form, **found})


if __name__ == "__main__":
    main()
