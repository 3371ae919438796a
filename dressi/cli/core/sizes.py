"""Sizes of images as options of the command line give them."""

from dressi.errors import InputError, shown


def parse_size(text: str) -> tuple[int, int]:
    """`256` or `320x240` as (W, H). Raises InputError."""
    parts = text.lower().split("x")
    try:
        numbers = [int(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2):
        raise InputError(f"--size '{shown(text)}' is not a size; give one like 256 or 320x240")
    if min(numbers) < 1:
        raise InputError(f"--size {shown(text)} is empty; give at least one pixel each way, such as 256")
    return numbers[0], numbers[-1]


def check_size(size: tuple[int, int], texture: int, largest: int) -> None:
    """Raises InputError when pictures or the texture are larger than the device's images."""
    if max(size) > largest:
        raise InputError(
            f"--size {size[0]}x{size[1]} is past the device's limit of {largest} pixels; give a smaller one"
        )
    if texture > largest:
        raise InputError(
            f"--texture-size {texture} is past the device's limit of {largest}; give a smaller one"
        )
