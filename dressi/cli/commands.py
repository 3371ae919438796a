"""The commands as one program, and what its user is told when one of them fails."""

import functools
import json
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import __version__
from ..config import config
from ..errors import DressiError, InputError, ShaderError
from .bake import bake
from .bench.names import CASES, peers_text
from .core.interrupt import imports
from .core.terminal import say
from .doctor.command import doctor
from .fit import FitCommand, fit
from .view import view

if TYPE_CHECKING:
    from .. import Variable


# The options of `dressi bench`.

OF_COMMAND = ("case", "predicted", "device_model", "measure", "against", "out", "fresh", "quick")
"""Arguments that say what is done with a case, and are no options of one."""
OF_ONE_CASE = ("peer", "cold", "json_file", "channels", "kernel", "depthwise")
"""Options of a case that `bench all` and `tables` do not hand on."""


def bench(
    case: Annotated[
        str,
        typer.Argument(
            help=f"One of {', '.join(CASES)}; `all`, which measures every case and makes a page of them; `tables`, the"
            " same of tables 2 to 5, which it prints beside the paper's; or `model`, which predicts a case and needs no device."
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
            " With `tables`: results of another machine, a file or a folder, to stand beside."
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Vulkan device, by name or index; `all` for every one there is.")
    ] = None,
    peer: Annotated[
        str | None,
        typer.Option(help=f"Other programs on the same case, in turns, with commas: {peers_text()}."),
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
        typer.Option(help="With `all` and `tables`: folder of the results and pages. Default: out/bench."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="With `all` and `tables`: measure again what the folder has.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="With `tables`: fewer and smaller, in two minutes.")
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

    if case in ("all", "tables"):
        refused = {
            "peer": peer,
            "json": json_file,
            "cold": cold,
            "device_model": device_model,
            "measure": measure,
            **({} if case == "tables" else {"against": against, "quick": quick}),
        }
        check_all(case, predicted, refused)
        with imports():
            from dressi.cli.bench.suite import run_suite

        given = {name: value for name, value in options.items() if name not in OF_ONE_CASE}
        tables = {"tables": case == "tables", "quick": quick, "against": against}
        return run_suite(Path("out/bench") if out is None else out, given, **tables, fresh=fresh)
    if out is not None or fresh or quick:
        option = "--out" if out is not None else "--fresh" if fresh else "--quick"
        raise InputError(f"{option} belongs to `bench all` or `tables`; --json FILE keeps the results of one")
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


# `dressi report`: the page of a fit or of benchmarks.


def report(
    folder: Annotated[
        Path, typer.Argument(help="What `dressi fit --out` or `dressi bench all --out` wrote.", metavar="DIR")
    ],
    out: Annotated[
        Path | None, typer.Option(help="The file to write. Default: report.html in the folder.")
    ] = None,
) -> None:
    """Make one HTML page of a folder of results, which needs no network and no other file."""
    with imports():
        from dressi.report import write_report

    path = write_report(folder, out)
    print(f"the page is '{path}' ({path.stat().st_size / 1e6:.1f} MB)")


# `dressi devices`: the Vulkan devices, their limits, and what is missing on the machine.


def devices(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Measure the device model of each, which the planner uses; run nothing else meanwhile.",
        ),
    ] = False,
) -> None:
    """List the Vulkan devices, their limits, and what is missing."""
    with imports():
        from dressi.config import config
        from dressi.vk.run.device.capabilities import read_capabilities
        from dressi.vk.run.device.instance import Instance, choose, list_devices
        from dressi.vk.run.shaders.pyglslang import find_compiler

    listed = list_devices()
    try:
        compiler = str(find_compiler())
    except ShaderError:
        compiler = None
    notes = _missing(compiler)
    # A DRESSI_DEVICE that is not there is an error for every command but this one, which lists what is.
    try:
        chosen = choose(listed, config.device).index
    except DressiError as error:
        chosen, notes = None, [*notes, f"DRESSI_DEVICE: {error}"]
    instance = Instance.shared()
    entries = [
        {
            **device.as_dict(),
            "chosen": device.index == chosen,
            "limits": read_capabilities(instance.vk, instance.handle, device.handle).limits.as_dict(),
            **({"model": _model(device.index)} if calibrate else {}),
        }
        for device in listed
    ]
    if as_json:
        print(json.dumps({"devices": entries, "glsl_compiler": compiler, "missing": notes}, indent=2))
        return
    for entry in entries:
        _print_device(entry)
    print(f"GLSL compiler: {compiler or 'none'}")
    for note in notes:
        print(f"missing: {note}")


def _missing(compiler: str | None) -> list[str]:
    """One sentence with its cure for everything that the program or its tests would like to have."""
    from dressi.vk.run.device.instance import VALIDATION_LAYER, Instance
    from dressi.vk.run.host.platforms import current

    notes = []
    if compiler is None:
        notes.append(f"a GLSL compiler: {current().glslang}")
    elif "glslc" in compiler or "glslangValidator" in compiler:
        notes.append(f"glslang as a library (shaders compile slowly without): {current().glslang}")
    layers = Instance.shared().vk.vkEnumerateInstanceLayerProperties()
    if VALIDATION_LAYER not in {layer.layerName for layer in layers}:
        notes.append(f"the Vulkan validation layer: {current().validation}")
    return notes


def _model(index: int) -> dict[str, Any]:
    from dressi import Device
    from dressi.vk.run.measure.calibration import calibrate

    with Device.open(index) as device:
        return calibrate(device).as_dict()


def _print_device(entry: dict[str, Any]) -> None:
    from dressi.vk.plan.core.limits import UNLIMITED

    mark = "  (used unless --device or DRESSI_DEVICE says otherwise)" if entry["chosen"] else ""
    driver = f"{entry['driver']} {entry['driver_version']}, Vulkan {entry['api_version']}"
    print(f"{entry['index']}: {entry['name']}{mark}\n   type {entry['type']}, driver {driver}")
    limits = {name.removeprefix("max_").replace("_", " "): value for name, value in entry["limits"].items()}
    width = max(map(len, limits))
    for name, value in limits.items():
        # Drivers report numbers of descriptors that no shader reaches.
        print(f"   {name:<{width}}  {'no limit that matters' if value == UNLIMITED else value}")
    for name, value in entry.get("model", {}).items():
        print(f"   device model: {name} {value}")
    print()


# `dressi count`: the operations of a computation, as written and at the fewest, and its source text.

LANGUAGES = {".h": "c", ".c": "c", ".py": "numpy", ".glsl": "glsl"}


def count(
    program: Annotated[
        Path,
        typer.Argument(
            help="A Python file that makes `outputs`: a Variable, or a list or mapping of them.",
            metavar="PROGRAM",
        ),
    ],
    by: Annotated[
        str | None,
        typer.Option(
            help="Names of leaves, with commas: the derivatives by them are counted, too.", metavar="NAMES"
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(help="Write the function (with --by its Jacobian) here: .h (C), .py (NumPy) or .glsl."),
    ] = None,
    product_cost: Annotated[
        float,
        typer.Option(min=1.0, help="What a product costs in sums; the dearer, the more sums replace them."),
    ] = 1.0,
    dot: Annotated[Path | None, typer.Option(help="Write the graph here, for Graphviz.")] = None,
) -> None:
    """Count the operations a texel of a computation before and after simplification, by kind.

    Those of derivatives stand beside the gradients of all components, one after the other."""
    with imports():
        from dressi import F
        from dressi.ad.expressions.count import as_written, fewest
        from dressi.ad.expressions.jacobian import component_of
        from dressi.ad.show import dot as dot_of
        from dressi.ad.transform.gradient import gradient

    outputs = _outputs(program)
    language = "" if source is None else LANGUAGES.get(source.suffix)
    if language is None:
        raise InputError(
            f"--source {source}: the name ends with {', '.join(LANGUAGES)}, which says the language"
        )
    shown = [("the outputs", "written", outputs, outputs)]
    if by is not None:
        leaves = _leaves(outputs, by)
        components = [component_of(y, k) for y in outputs for k in range(y.vtype.components)]
        outputs = [x for row in F.jacobian(outputs, leaves) for x in row]
        gradients = [x for y in components for x in gradient(y, leaves, F.constant(1.0))]
        shown.append(("their derivatives", "in reverse", gradients, outputs))
    for what, how, before, after in shown:
        _print(what, how, as_written(before), fewest(after, product_cost))
    if dot is not None:
        _write(dot, dot_of(outputs))
    if source is not None:
        _write(source, F.source(outputs, language, "f", product_cost=product_cost))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    print(f"wrote '{path}'")


def _print(what: str, how: str, before: Any, after: Any) -> None:
    print(f"{what + ', operations a texel':43s} {how:>10s} {'fewest':>9s}")
    rows = {
        "sums and differences": (before.adds, after.adds),
        "products": (before.multiplies, after.multiplies),
        "quotients": (before.divides, after.divides),
    }
    for name in sorted({*before.calls, *after.calls}):
        rows[name] = before.calls.get(name, 0), after.calls.get(name, 0)
    for name, (a, b) in {**rows, "all": (before.total, after.total)}.items():
        print(f"  {name:42s} {a:9,d} {b:9,d}")


def _outputs(program: Path) -> "list[Variable]":
    """The outputs that the program makes. Raises InputError."""
    import runpy

    from dressi import Variable

    if not program.is_file():
        raise InputError(f"{program}: no such file; give a Python program that makes `outputs`")
    try:
        made = runpy.run_path(str(program), run_name="dressi_count").get("outputs")
    except SyntaxError as error:
        raise InputError(f"{program}: line {error.lineno} is no Python: {error.msg}") from error
    values = [made] if isinstance(made, Variable) else list(made.values()) if isinstance(made, dict) else made
    if not isinstance(values, list | tuple) or not values or not all(isinstance(v, Variable) for v in values):
        raise InputError(
            f"{program}: it makes no `outputs`: assign it a Variable, or a list or dict of Variables"
        )
    return list(values)


def _leaves(outputs: "list[Variable]", names: str) -> "list[Variable]":
    from dressi.ad.graph.traversal import leaves

    known = {v.name: v for v in leaves(outputs) if v.name}
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    missing = [name for name in wanted if name not in known]
    if missing or not wanted:
        what, named = missing[0] if missing else repr(names), ", ".join(sorted(known)) or "no named leaf"
        raise InputError(f"--by: the outputs read no leaf named {what}; they read {named}")
    return [known[name] for name in wanted]


app = typer.Typer(
    name="dressi",
    help="Differentiable rendering on any Vulkan device.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class _Interrupted(BaseException):
    """Ctrl-C inside a command, under a name that the parser does not handle: it would exit without a word."""


def _command(function: Callable[..., Any]) -> None:
    @functools.wraps(function)
    def run_it(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except KeyboardInterrupt:
            raise _Interrupted from None

    if function is fit:
        FitCommand.call = staticmethod(run_it)
    app.command(cls=FitCommand if function is fit else None)(run_it)


for _function in (devices, doctor, fit, bake, bench, count, report, view):
    _command(_function)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"dressi {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _main(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Differentiable rendering on any Vulkan device."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0 done, 2 bad input, or what the command says.

    Raises KeyboardInterrupt and BrokenPipeError, and what is a mistake of this program.
    """
    warnings.showwarning = _warn
    try:
        code = app(arguments, prog_name="dressi", standalone_mode=False)
    except _Interrupted:
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        raise
    except Exception as error:
        message = _sentence(error)
        if message is None or _debugging():
            raise
        say(f"dressi: error: {message}")
        return 2
    return code if isinstance(code, int) else 0


def _sentence(error: BaseException) -> str | None:
    """What the user is told, on one line; None for errors that are ours to mend."""
    if isinstance(error, DressiError):
        first, *rest = str(error).strip().splitlines() or [type(error).__name__]
        return f"{first} (DRESSI_DEBUG=1 shows all)" if rest else first
    if hasattr(error, "format_message"):  # an option or argument that the parser refuses
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "dressi"
        return f"{error.format_message().rstrip('.')}; see `{command} --help`"  # type: ignore[attr-defined]
    if isinstance(error, OSError) and error.strerror:
        name = error.filename if error.filename is not None else "a file"
        return f"{name}: {error.strerror}; choose another folder or file, or free some space"
    if type(error).__module__.split(".")[0] == "vulkan":
        return f"the Vulkan driver reports {type(error).__name__}; try a smaller --size, or another --device"
    if isinstance(error, MemoryError):
        return "the machine is out of memory; use a smaller --size or fewer --views"
    return None


def _debugging() -> bool:
    try:
        return config.debug >= 1
    except InputError:
        return False


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    say(f"dressi: warning: {' '.join(str(message).split())}")


if "PYTHONWARNINGS" not in os.environ:
    # Warnings of libraries are for programmers; our own are UserWarning and RuntimeWarning.
    warnings.filterwarnings("ignore", category=DeprecationWarning)
