"""The figures of bench-scale as a table, and as a picture where a file name is given."""
import sys

COLUMNS = ["I/O daemons", "mounts", "write MB/s", "read MB/s", "creates/s", "looks/s", "CPU s/GiB"]
rows = [line.split("\t") for line in sys.stdin.read().split("\n") if line]
print("| " + " | ".join(COLUMNS) + " |")
print("|" + "---|" * len(COLUMNS))
for row in rows:
    print("| " + " | ".join(row) + " |")


def panel(x, y, title, column):
    """Bars in groups of equal servers, one bar for each number of mounts."""
    most = max(float(row[column]) for row in rows)
    parts = [f'<text x="{x}" y="{y - 8}" font-weight="bold">{title}</text>']
    for i, row in enumerate(rows):
        height = 110 * float(row[column]) / most
        left = x + 26 * i + 14 * (i // 3)
        shade = ["#b8cfe6", "#6f9fd0", "#2b6cb0"][i % 3]
        parts.append(f'<rect x="{left}" y="{y + 120 - height:.1f}" width="22" height="{height:.1f}" fill="{shade}"/>')
        parts.append(f'<text x="{left + 11}" y="{y + 132}" text-anchor="middle">{row[1]}</text>')
        if i % 3 == 1:
            parts.append(f'<text x="{left + 11}" y="{y + 146}" text-anchor="middle">{row[0]} daemons</text>')
    parts.append(f'<text x="{x + 300}" y="{y - 8}" text-anchor="end">highest: {most:g}</text>')
    return parts


if len(sys.argv) > 1:
    body = []
    for i, (title, column) in enumerate([("write, MB/s", 2), ("read, MB/s", 3), ("creates/s", 4),
                                         ("looks/s", 5), ("CPU seconds per GiB", 6)]):
        body += panel(20 + 340 * (i % 2), 40 + 190 * (i // 2), title, column)
    body.append('<text x="360" y="440">Each bar: 1, 2 or 4 mounts at once (the number below it).</text>')
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write('<svg xmlns="http://www.w3.org/2000/svg" width="700" height="600" font-family="sans-serif" font-size="11">\n')
        out.write('<rect width="700" height="600" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n")
