"""Figures as a picture (SVG): chart.py FILE < lines of "panel, line, what is across, value" with tabs between them.

Each panel is a diagram of its own with lines of one colour each, from 0 to the highest value of the panel. A line whose name begins with
"=" is a bound: drawn thin, and named at its end.
"""
import sys

COLOURS = ["#2b6cb0", "#b7472a", "#4a8f4a", "#8a5ca8", "#8a8a8a"]
WIDE, HIGH, LEFT, TOP = 360, 300, 56, 40
ACROSS, UP = 250, 190

panels = {}
for row in sys.stdin.read().split("\n"):
    if row:
        panel, line, across, value = row.split("\t")
        panels.setdefault(panel, {}).setdefault(line, []).append((across, float(value)))


def draw(x, y, title, lines):
    """One panel, whose upper left corner is there."""
    most = max(value for points in lines.values() for _, value in points)
    names = list(dict.fromkeys(across for points in lines.values() for across, _ in points))
    step = ACROSS / max(len(names) - 1, 1)
    left, bottom = x + LEFT, y + TOP + UP
    parts = [f'<text x="{x + 12}" y="{y + 22}" font-weight="bold">{title}</text>',
             f'<path d="M{left} {y + TOP} V{bottom} H{left + ACROSS}" fill="none" stroke="#888"/>',
             f'<text x="{left - 6}" y="{y + TOP + 8}" text-anchor="end">{most:g}</text>',
             f'<text x="{left - 6}" y="{bottom}" text-anchor="end">0</text>']
    for i, name in enumerate(names):
        parts.append(f'<text x="{left + step * i:.1f}" y="{bottom + 16}" text-anchor="middle">{name}</text>')
    for i, (line, points) in enumerate(lines.items()):
        colour, bound = COLOURS[i % len(COLOURS)], line.startswith("=")
        places = [(left + step * names.index(across), bottom - UP * value / most) for across, value in points]
        parts.append(f'<polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in places)}" fill="none" stroke="{colour}" '
                     f'stroke-width="{1 if bound else 2}"{" stroke-dasharray=" + chr(34) + "4 3" + chr(34) if bound else ""}/>')
        if not bound:
            parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in places]
        parts.append(f'<text x="{left + 8 + (i % 2) * 130}" y="{bottom + 36 + 14 * (i // 2)}" fill="{colour}">{line.lstrip("=")}</text>')
    return parts


rows, columns = (len(panels) + 1) // 2, min(len(panels), 2)
size = f'width="{WIDE * columns}" height="{rows * HIGH}"'
body = []
for at, (name, series) in enumerate(panels.items()):
    body += draw(WIDE * (at % 2), HIGH * (at // 2), name, series)
with open(sys.argv[1], "w", encoding="utf-8") as out:
    out.write(f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">\n')
    out.write(f'<rect {size} fill="white"/>\n' + "\n".join(body) + "\n</svg>\n")
