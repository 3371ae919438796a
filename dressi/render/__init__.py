"""Rendering: from a mesh to a picture and its gradient. Everything a user needs is a name of this package.

    from dressi.render import load_mesh, render
    render(load_mesh("mesh.glb")).save("mesh.png")

pictures: from a mesh to arrays, or to differentiable images
    Picture, Pixels, SurfacePoint, render, render_turntable

lights: Lambert's (Light), and those that shade any surface
    DirectionalLight, Environment, HarmonicsLight, IesLight, Light, MonteCarloEnvironment, PointLight, RectangleLight,
    Shadow, SpotLight, studio

surfaces: how light is reflected, by glTF materials and by classes of one's own
    Bsdf, EyeBsdf, Frame, GltfBsdf, HairBsdf, Material, MaterialKind, Parameter, SkinBsdf, TeethBsdf, bake_occlusion,
    burley, diffused

meshes: shapes on the host, in and out of files
    Mesh, load_mesh, primitives, save_mesh

scenes: several shapes in one picture, with a material and a place each
    MorphGeometry, Node, Scene, Skeleton, SkinnedGeometry, TriangleGeometry, load_scene, save_scene

strands, lines and points, with exact areas in pixels
    AtPoints, KajiyaKay, Marschner, PointGeometry, StrandGeometry, StrandPicture, StrandPoint, curves, draw_strands,
    load_strands, save_strands, wireframe

cameras: views, and cameras around an object
    Camera, Cameras, FisheyeLens, Lens, Poses, Views, exposure, frame, look_at, orbit, poses, resampled,
    ring, rolling_shutter, sample_times, surround

rotations: of arrays and Variables; quaternions are (w, x, y, z)
    axis_angle_to_matrix, axis_angle_to_quaternion, exp_so3, log_so3, matrix_to_axis_angle,
    matrix_to_quaternion, matrix_to_rotation_6d, quaternion_conjugate, quaternion_multiply, quaternion_rotate,
    quaternion_to_axis_angle, quaternion_to_matrix, rotation_6d_to_matrix, wxyz_to_xyzw, xyzw_to_wxyz

rigid motions: of arrays and Variables
    compose, exp_se3, invert, log_se3, rigid, rotation_and_translation, transform

conventions: OpenCV, OpenGL, PyTorch3D, COLMAP, NeRF / Blender, of arrays and Variables
    clip_from_opengl, clip_to_opengl, view_from_colmap, view_from_nerf, view_from_opencv, view_from_opengl,
    view_from_pytorch3d, view_to_colmap, view_to_nerf, view_to_opencv, view_to_opengl, view_to_pytorch3d

intrinsics: focal lengths, fields of view, pixel centres, of arrays and Variables
    focal_from_fov, fov_from_focal, intrinsics, intrinsics_from_fov, intrinsics_from_pytorch3d,
    intrinsics_to_pytorch3d, projection_from_fov, projection_matrix, shift_principal

the parts of a picture: for graphs of one's own
    barycentric, corners, covered, edge_list, flat_normal, hard_soft_ras, interpolate, lambert, list_data,
    list_leaf, outside_distance, rasterize_hard, soft_target, texture_colour, texture_uv, to_clip, unlit,
    vertex_normals, with_margin

shapes of other shapes: as graphs
    displaced, loop_subdivision

losses and regularizers: scalars to minimise
    adjacency, arap_loss, bilaplacian_loss, charbonnier, cotangent, dirichlet_loss, edge_length_loss, l1, l2, laplacian_loss,
    large_steps, normal_consistency, pyramid, spread

clouds and points of surfaces: distances as graphs
    chamfer_loss, cloud, f_score_loss, hausdorff_loss, surface_samples

losses that see: structure and features of pictures, as graphs
    Features, load_features, multiscale_structural_similarity, perceptual, structural_similarity

measures and colours: of arrays
    chamfer, f_score, hausdorff, iou, linear_to_srgb, psnr, srgb_to_linear, ssim

Fits from pictures are in ``dressi.render.fit``. Positions, colours and the like of meshes are lists: images
of one entry a texel (``list_leaf``). All colours are linear unless a name says sRGB.
"""

# ruff: noqa: F403, F405
from typing import TYPE_CHECKING, Any

from ..lazy import resolve as _resolve

if TYPE_CHECKING:
    from .cameras import Camera, Cameras, Views, look_at
    from .cameras.camera import *
    from .cameras.lens import FisheyeLens, Lens
    from .cameras.panorama import resampled, surround
    from .cameras.pose import Poses, poses
    from .cameras.rigid import *
    from .cameras.shutter import exposure, rolling_shutter, sample_times
    from .cameras.views import frame, orbit, ring
    from .core.lists import list_data, list_leaf
    from .core.materials import MaterialKind, Parameter
    from .drawing.draw import render_turntable
    from .drawing.entry import render
    from .drawing.occlusion import bake_occlusion
    from .drawing.picture import Picture
    from .drawing.pixels import Pixels
    from .drawing.point import SurfacePoint
    from .formats import load_mesh, load_scene, save_mesh, save_scene
    from .forms.edges.edge_list import edge_list
    from .forms.hard_soft_ras import hard_soft_ras
    from .forms.soft_target import outside_distance, soft_target
    from .io.strands import load_strands, save_strands
    from .mesh import Material, Mesh, primitives
    from .objectives.deformation import arap_loss, displaced, loop_subdivision
    from .objectives.large_steps import large_steps, spread
    from .objectives.losses import *
    from .objectives.metrics import chamfer, f_score, hausdorff, iou, psnr, ssim
    from .objectives.perceptual import Features, load_features, perceptual
    from .objectives.points import chamfer_loss, cloud, f_score_loss, hausdorff_loss, surface_samples
    from .objectives.regularizers import *
    from .scene.geometry import MorphGeometry, TriangleGeometry
    from .scene.scene import Node, Scene
    from .scene.skin import Skeleton, SkinnedGeometry
    from .shading.area import RectangleLight
    from .shading.bsdf import Bsdf, EyeBsdf, Frame, GltfBsdf, HairBsdf, SkinBsdf, TeethBsdf
    from .shading.environment import Environment, studio
    from .shading.harmonics import HarmonicsLight
    from .shading.lights import (
        DirectionalLight,
        IesLight,
        Light,
        PointLight,
        Shadow,
        SpotLight,
        lambert,
        unlit,
    )
    from .shading.monte_carlo import MonteCarloEnvironment
    from .shading.skin import burley, diffused
    from .strands.draw import StrandPicture, draw_strands
    from .strands.geometry import PointGeometry, StrandGeometry, curves, wireframe
    from .strands.marschner import Marschner
    from .strands.ribbons import AtPoints, KajiyaKay, StrandPoint
    from .surface.color import linear_to_srgb, srgb_to_linear
    from .surface.projection import to_clip
    from .surface.screen import *
    from .surface.texturing import texture_colour, texture_uv

_MODULES = (
    "core.lists", "cameras", "cameras.views", "cameras.camera", "cameras.lens", "cameras.shutter",
    "cameras.panorama", "cameras.pose", "cameras.rigid", "mesh", "drawing.entry",
    "core.materials", "drawing.picture", "drawing.pixels", "drawing.point", "forms.edges.edge_list",
    "forms.hard_soft_ras", "forms.soft_target", "scene.geometry", "scene.scene",
    "scene.skin", "shading.area", "shading.bsdf", "shading.environment", "shading.harmonics",
    "shading.lights", "shading.monte_carlo", "shading.skin", "strands.draw",
    "strands.geometry", "strands.marschner", "strands.ribbons", "surface.color", "surface.projection",
    "surface.screen", "surface.texturing", "drawing.draw", "drawing.occlusion", "formats", "io.strands",
    "objectives.large_steps", "objectives.losses", "objectives.metrics", "objectives.perceptual",
    "objectives.points", "objectives.regularizers", "objectives.deformation",
)  # fmt: skip
"""The modules of all names, the quick ones first; the others in the order in which pictures need them."""

__all__ = [
    "AtPoints", "Bsdf", "Camera", "Cameras", "DirectionalLight", "Environment", "EyeBsdf", "Features",
    "FisheyeLens", "Frame", "GltfBsdf", "HairBsdf", "HarmonicsLight", "IesLight", "KajiyaKay", "Lens",
    "Light", "Marschner", "Material", "MaterialKind", "Mesh", "MonteCarloEnvironment", "MorphGeometry",
    "Node", "Parameter", "Picture", "Pixels", "PointGeometry", "PointLight", "Poses", "RectangleLight",
    "Scene", "Shadow", "Skeleton", "SkinBsdf", "SkinnedGeometry", "SpotLight", "StrandGeometry",
    "StrandPicture", "StrandPoint", "SurfacePoint", "TeethBsdf", "TriangleGeometry", "Views",
    "adjacency", "arap_loss", "axis_angle_to_matrix", "axis_angle_to_quaternion", "bake_occlusion", "barycentric",
    "bilaplacian_loss", "burley", "chamfer", "chamfer_loss", "charbonnier", "clip_from_opengl",
    "clip_to_opengl", "cloud", "compose", "corners", "cotangent", "covered", "curves", "diffused",
    "dirichlet_loss", "displaced", "draw_strands", "edge_length_loss", "edge_list", "exp_se3",
    "exp_so3", "exposure", "f_score", "f_score_loss", "flat_normal", "focal_from_fov", "fov_from_focal",
    "frame", "hard_soft_ras", "hausdorff", "hausdorff_loss", "interpolate", "intrinsics",
    "intrinsics_from_fov", "intrinsics_from_pytorch3d", "intrinsics_to_pytorch3d", "invert", "iou",
    "l1", "l2", "lambert", "laplacian_loss", "large_steps", "linear_to_srgb", "list_data", "list_leaf",
    "load_features", "load_mesh", "load_scene", "load_strands", "log_se3", "log_so3", "look_at",
    "loop_subdivision", "matrix_to_axis_angle", "matrix_to_quaternion", "matrix_to_rotation_6d",
    "multiscale_structural_similarity", "normal_consistency", "orbit", "outside_distance", "perceptual",
    "poses", "primitives", "projection_from_fov", "projection_matrix", "psnr", "pyramid",
    "quaternion_conjugate", "quaternion_multiply", "quaternion_rotate", "quaternion_to_axis_angle",
    "quaternion_to_matrix", "rasterize_hard", "render", "render_turntable", "resampled", "rigid",
    "ring", "rolling_shutter", "rotation_6d_to_matrix", "rotation_and_translation", "sample_times",
    "save_mesh", "save_scene", "save_strands", "shift_principal", "soft_target", "spread",
    "srgb_to_linear", "ssim", "structural_similarity", "studio", "surface_samples", "surround",
    "texture_colour", "texture_uv", "to_clip", "transform", "unlit", "vertex_normals",
    "view_from_colmap", "view_from_nerf", "view_from_opencv", "view_from_opengl", "view_from_pytorch3d",
    "view_to_colmap", "view_to_nerf", "view_to_opencv", "view_to_opengl", "view_to_pytorch3d",
    "wireframe", "with_margin", "wxyz_to_xyzw", "xyzw_to_wxyz",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "primitives":  # a module
        from .mesh import primitives

        return primitives
    return _resolve(__name__, name, _MODULES if name in __all__ else ())


def __dir__() -> list[str]:
    return sorted({*__all__, *globals()})
