# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws times over sizes as SVG, both on logarithmic axes."""

import itertools
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 560, 78, 36, 112, 62
COLORS = {"ours": ["#d55e00", "#8c2d04"], "limit": ["#111"],
          "peer": ["#0072b2", "#56b4e9", "#009e73", "#8fce5f", "#cc79a7", "#7570b3", "#e69f00", "#999"]}
STYLE = {"ours": 'stroke-width="3.5"', "peer": 'stroke-width="1.8"',
         "limit": 'stroke-width="1.8" stroke-dasharray="6 5"'}


def size_text(size):
    """'64 KiB' for 65536."""
    unit = 0
    while size >= 1024 and unit < 4:
        size, unit = size / 1024, unit + 1
    return f"{size:.4g} {['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit]}"


def time_text(us):
    """'1.2 ms' for 1234 us."""
    for scale, unit in [(1e6, "s"), (1e3, "ms"), (1, "us")]:
        if us >= scale:
            return f"{us / scale:.3g} {unit}"
    return f"{us * 1e3:.3g} ns"


def plot(title, subtitle, curves):
    """The text of the picture. Each curve is (name, [(bytes, us)...], kind), and kind is "ours" (strong), "peer" or
    "limit" (dashed, and drawn only as far up as the others reach down)."""
    floor = min((us for _, points, kind in curves if kind != "limit" for _, us in points), default=0)
    curves = [(name, [p for p in points if kind != "limit" or p[1] >= floor], kind) for name, points, kind in curves]
    sizes = [math.log2(size) for _, points, _ in curves for size, _ in points]
    times = [math.log10(us) for _, points, _ in curves for _, us in points]
    least, most = min(sizes), max(max(sizes), min(sizes) + 1)
    low, high = math.floor(min(times)), max(math.ceil(max(times)), math.floor(min(times)) + 1)

    def at(size, us):
        return (LEFT + (math.log2(size) - least) / (most - least) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - (math.log10(us) - low) / (high - low) * (HEIGHT - TOP - BOTTOM))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
           'font-family="Helvetica, Arial, sans-serif" font-size="13" fill="#333">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']

    def text(x, y, words, more=""):
        out.append(f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(words)}</text>')

    def line(x1, y1, x2, y2, more):
        out.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {more}/>')

    text(LEFT, 30, title, 'font-size="18" font-weight="bold" fill="#111"')
    text(LEFT, 50, subtitle, 'fill="#666"')
    for power in range(low, high + 1):
        y = at(2 ** least, 10 ** power)[1]
        line(LEFT, y, WIDTH - RIGHT, y, 'stroke="#888"' if power == low else 'stroke="#e4e4e4"')
        text(LEFT - 8, y + 4.5, time_text(10 ** power), 'text-anchor="end"')
    labelled = sorted({size for _, points, _ in curves for size, _ in points})
    for size in labelled[::math.ceil(len(labelled) / 9)]:
        x, y = at(size, 10 ** low)
        line(x, y, x, y + 5, 'stroke="#888"')
        text(x, y + 21, size_text(size), 'text-anchor="middle"')
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "size", 'text-anchor="middle"')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    out.append(f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">time</text>')

    colors = {kind: itertools.cycle(them) for kind, them in COLORS.items()}
    painted = [(curve, next(colors[curve[2]])) for curve in curves]
    for (name, points, kind), color in sorted(painted, key=lambda one: one[0][2] == "ours"):  # ours on top
        places = [(*at(size, us), size, us) for size, us in points]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in places)
        out.append(f'<polyline fill="none" stroke-linejoin="round" stroke="{color}" {STYLE[kind]} points="{joined}"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"><title>'
                f'{escape(name)}: {time_text(us)} at {size_text(size)}</title></circle>' for x, y, size, us in places]
    x, y = LEFT, 76
    for (name, _, kind), color in painted:  # the legend
        wide = 46 + 7.2 * len(name)
        if x + wide > WIDTH - RIGHT:
            x, y = LEFT, y + 20
        line(x, y - 4.5, x + 20, y - 4.5, f'stroke="{color}" {STYLE[kind]}')
        text(x + 26, y, name)
        x += wide
    return "\n".join([*out, "</svg>", ""])
