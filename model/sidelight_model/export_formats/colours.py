"""The colour of a frame: its package gives the hue, its function the shade.

The UI has the same rule in `web/src/flamegraph/render/colour.ts`, so a function has the same colour
everywhere. The standard library is pale; frames without a file (`total`, `(other)`) are grey. Every fill is
light enough for black text (WCAG 2: a contrast of at least 4.5).
"""

from __future__ import annotations

from sidelight_model.frames import Frame
from sidelight_model.packages import STDLIB_MODULES, find_package_name

RgbColour = tuple[int, int, int]

_HUES = (12, 28, 42, 58, 84, 126, 158, 178, 232, 262, 286, 334)
_UINT32_MASK = 0xFFFFFFFF


def choose_colour(frame: Frame) -> RgbColour:
    """Choose the fill colour of a frame's box."""
    if not frame.file:
        return _hsl_to_rgb(240, 0.03, 0.72)
    name = find_package_name(frame.file)
    hue = _HUES[int(_scale_to_unit(_hash_fnv1a(name, 7)) * len(_HUES))]
    shade = _scale_to_unit(_hash_fnv1a(frame.function, 11))
    if name in STDLIB_MODULES or frame.file.startswith("<frozen"):
        return _hsl_to_rgb(205 + hue / 12, 0.16, 0.7 + shade * 0.1)
    return _hsl_to_rgb(hue, 0.58, 0.64 + shade * 0.12)


def to_css(colour: RgbColour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _hash_fnv1a(text: str, seed: int) -> int:
    """Hash the UTF-16 code units of a text with FNV-1a."""
    units = text.encode("utf-16-le", "surrogatepass")
    value = seed
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = ((value ^ (low | high << 8)) * 0x01000193) & _UINT32_MASK
    return value


def _scale_to_unit(value: int) -> float:
    """Scale a 32-bit hash to 0…1."""
    mixed = ((value ^ value >> 15) * 0x2C1B3C6D) & _UINT32_MASK
    return (mixed ^ mixed >> 13) / 0x1_0000_0000


def _hsl_to_rgb(hue: float, saturation: float, lightness: float) -> RgbColour:
    reach = saturation * min(lightness, 1 - lightness)

    def channel(offset: int) -> int:
        at = (offset + hue / 30) % 12
        return int(255 * (lightness - reach * max(-1.0, min(at - 3, 9 - at, 1.0))) + 0.5)

    return channel(0), channel(8), channel(4)
