"""The options of `dressi bench`."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from dressi.cli.bench.names import CASES, peers_text
from dressi.cli.core.interrupt import imports
from dressi.errors import InputError

OF_COMMAND = ("case", "predicted", "device_model", "measure", "against", "out", "fresh")
"""Arguments that say what is done with a case, and are no options of one."""
OF_ONE_CASE = ("peer", "cold", "json_file", "channels", "kernel", "depthwise")
"""Options of a case that `bench all` does not hand on."""


def bench(
    case: Annotated[
        str,
        typer.Argument(
            help=f"One of {', '.join(CASES)}; `all`, which measures every case and makes a page of them; or `model`, which"
            " predicts a case and needs no device."
        ),
    ],
    predicted: Annotated[
        str | None, typer.Argument(metavar="[CASE]", help="With `model`: the case, one of these or `fit`.")
    ] = None,
    views: Annotated[int | None, typer.Option(help="Views, a batch. Default: the case's.")] = None,
    size: Annotated[
        str | None,
        typer.Option(help="Pixels of an image, N or WxH; several with commas. Default: the case's."),
    ] = None,
    texture_size: Annotated[
        str | None, typer.Option(help="Texels along a side of the texture; several with commas.")
    ] = None,
    texture_gradient: Annotated[
        str | None, typer.Option(help="exact or inverse_uv. Default: exact, but for table5 inverse_uv.")
    ] = None,
    peels: Annotated[int, typer.Option(help="Layers that the face form of HardSoftRas peels.")] = 3,
    form: Annotated[
        str | None, typer.Option(help="Form of HardSoftRas, outer or face. Default: the case's.")
    ] = None,
    radius_px: Annotated[float, typer.Option(help="Radius of HardSoftRas in pixels.")] = 2.0,
    target: Annotated[
        str | None,
        typer.Option(
            help="Silhouettes to reach: hard, or softened as the form does. Default: soft, face form: hard."
        ),
    ] = None,
    mesh: Annotated[
        str | None,
        typer.Option(
            help="small, medium, large (about 700, 14,000, 51,000 faces) or a file; several with commas."
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Plan for a device's limits and model: desktop, uhd620, mali_g76, minimum, raspberry_pi4 ..."
        ),
    ] = None,
    device_model: Annotated[
        str | None,
        typer.Option(
            help="With `model`: cpu, integrated, desktop, data_centre or tiler. Default: that of --profile, else desktop."
        ),
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="With `model`: run the case on --device, and compare with its own model."
        ),
    ] = False,
    against: Annotated[
        Path | None,
        typer.Option(
            help="With `model`: compare with a file of measured Stages, as --measure --json writes it; without CASE all of its cases."
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Vulkan device, by name or index; `all` for every one there is.")
    ] = None,
    peer: Annotated[
        str | None, typer.Option(help=f"Another program on the same case, in turns: {peers_text()}.")
    ] = None,
    channels: Annotated[int, typer.Option(help="With `convolution`: channels in and out.")] = 16,
    kernel: Annotated[int, typer.Option(help="With `convolution`: texels along a side of the kernel.")] = 3,
    depthwise: Annotated[
        bool, typer.Option("--depthwise", help="With `convolution`: a kernel for each channel by itself.")
    ] = False,
    steps: Annotated[
        int | None, typer.Option(help="Steps of the optimisation that `quality` is of. Default: the case's.")
    ] = None,
    batches: Annotated[
        int | None,
        typer.Option(help="Timed batches, of whose times the median is taken. Default: the case's."),
    ] = None,
    cold: Annotated[
        bool, typer.Option("--cold", help="First build without any cache, the driver's own included.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the list of results here.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="With `all`: folder of the results and of report.html. Default: out/bench."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="With `all`: measure again what the folder has already.")
    ] = False,
) -> int:
    """Measure a case (20 warm-up steps, median of timed batches, first build apart), or predict it: model
    CASE."""
    options: dict[str, Any] = {name: value for name, value in locals().items() if name not in OF_COMMAND}
    if cold:
        # Mesa reads it when a device is made, so it has to be there before the first one.
        os.environ.setdefault("MESA_SHADER_CACHE_DISABLE", "true")
    with imports():
        from dressi.cli.bench.request import Request, check_all, check_model
        from dressi.cli.bench.run import run_bench

    if case == "all":
        refused = {
            "peer": peer,
            "json": json_file,
            "cold": cold,
            "device_model": device_model,
            "measure": measure,
            "against": against,
        }
        check_all(predicted, refused)
        with imports():
            from dressi.cli.bench.suite import run_suite

        given = {name: value for name, value in options.items() if name not in OF_ONE_CASE}
        return run_suite(Path("out/bench") if out is None else out, given, fresh=fresh)
    if out is not None or fresh:
        raise InputError(
            f"{'--fresh' if out is None else '--out'} belongs to `bench all`; --json FILE keeps the results of one"
        )
    if against is not None and case == "model":
        with imports():
            from dressi.cli.bench.model import run_against

        run_against(against, predicted, record=device_model, limits=profile)
        return 0
    check_model(case, predicted, device_model, measure or against is not None)
    request = Request.parse(predicted or case, **options)
    if predicted is None:
        run_bench(request)
        return 0
    with imports():
        from dressi.cli.bench.model import run_model

    run_model(request, record=device_model, measure=measure)
    return 0
