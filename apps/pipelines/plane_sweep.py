"""Plane-sweep stereo: depths of photographs from costs over planes, warped by homographies, and where views agree.

python apps/pipelines/plane_sweep.py
python apps/pipelines/plane_sweep.py --photos ../shared/data/photos/lego_synthetic
python -m dressi fit --photos ../shared/data/photos/dtu24 --quick --out out/dtu24
python apps/pipelines/plane_sweep.py --mesh out/dtu24/result.glb
"""

import numpy as np
from pipeline_tools import options, report
from stereo_tools import Views

from dressi import FLOAT, MAT3, DressiAD, F, Variable

# --steps: how many of the views are swept; --size: their width
given = options(
    __doc__,
    steps=50,
    size=160,
    photos="a folder of photographs instead of dtu24",
    mesh="one that was fitted to the photographs, whose depths are compared",
)
planes, neighbours, radius, sharpness = 128, 4, 3, 30.0
folder = given.photos or given.data / "photos" / "dtu24"
scene = Views(folder, given.size)
size = (scene.width, scene.height)
reference = Variable(FLOAT, size, name="reference")
others = [Variable(FLOAT, size, name=f"other{i}") for i in range(neighbours)]
matrices = [Variable(MAT3, batch=planes, name=f"matrix{i}") for i in range(neighbours)]
steps = Variable.of(np.arange(planes).reshape(-1, 1, 1), FLOAT, batched=True)


def correlation(a: Variable, b: Variable) -> Variable:
    """Of windows, without their means, from -1 to 1."""
    mean_a, mean_b = F.box_blur(a, radius), F.box_blur(b, radius)
    var_a, var_b = (F.box_blur(x * x, radius) - m * m for x, m in ((a, mean_a), (b, mean_b)))
    return (F.box_blur(a * b, radius) - mean_a * mean_b) * F.inversesqrt(F.maximum(var_a * var_b, 1e-8))


a, b, c, d = (correlation(reference, F.warp_homography(o, m)) for o, m in zip(others, matrices, strict=True))
# The two best of four views: the others may see something in front.
score = 0.5 * F.maximum(F.maximum(a, b) + F.maximum(c, d), F.maximum(a + b, c + d))
weight = F.exp(sharpness * (score - F.max(score, "n")))
winner = F.sum(weight * steps, "n") / F.sum(weight, "n")
near = F.sum(F.where(F.abs(steps - winner) < 2.0, weight, 0.0), "n") / F.sum(weight, "n")
confidence = near * F.clamp(F.max(score, "n"))

views, maps, sure = range(min(given.steps, len(scene.cameras))), {}, {}
with DressiAD(given.device) as ad:
    for k in views:
        depths = scene.depths(k, planes)
        ad.send(reference, scene.grey[k])
        for i, other in enumerate(scene.beside(k, neighbours)):
            ad.send(others[i], scene.grey[other])
            ad.send(matrices[i], scene.homographies(k, other, depths))
        found, certain = (np.squeeze(x) for x in (ad.evaluate(winner), ad.evaluate(confidence)))
        maps[k] = 1 / np.interp(found, np.arange(planes), 1 / depths)
        sure[k] = scene.masks[k] & (certain > 0.6)

agree = {k: sure[k] & (scene.votes(k, maps, sure, neighbours) >= 2) for k in views}
masked = sum(scene.masks[k].sum() for k in views)
confident, agreeing = (sum(x[k].sum() for k in views) for x in (sure, agree))
figures = {"confident_of_masked": confident / masked, "agree_within_1_percent": agreeing / max(confident, 1)}
if given.mesh:
    truth = scene.depths_of(given.mesh)
    both = {k: agree[k] & (truth[k] > 0) for k in views}
    right = sum((np.abs(maps[k] / np.where(both[k], truth[k], 1) - 1) < 0.01)[both[k]].sum() for k in views)
    figures["within_1_percent_of_mesh"] = right / max(sum(x.sum() for x in both.values()), 1)
limits = {k: scene.range(k) for k in views}
nearness = {k: np.clip((far - maps[k]) / (far - near), 0, 1) for k, (near, far) in limits.items()}
shown = [scene.grey[0], nearness[0], *(np.where(agree[k], nearness[k], 0) for k in list(views)[:4])]
report(given, f"plane_sweep_{folder.name}", figures, *(np.repeat(p[..., None], 3, -1) for p in shown))
