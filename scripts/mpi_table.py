"""The figures of bench-mpi ("MODE RANKS WRITE READ" lines) as a table of medians, and as a picture where a file name is given."""
import statistics
import sys

figures = {}
for line in sys.stdin:
    mode, ranks, write, read = line.split()
    figures.setdefault((int(ranks), mode), []).append((float(write), float(read)))
medians = {key: [statistics.median(column) for column in zip(*rounds)] for key, rounds in figures.items()}
ranks = sorted({key[0] for key in medians})
lines = [("write, independent", "block", 0, "#2b6cb0"), ("write, collective", "collective", 0, "#8fb5dd"),
         ("read, independent", "block", 1, "#b7472a"), ("read, collective", "collective", 1, "#e5a48f")]
print("| ranks | " + " | ".join(name for name, *_ in lines) + " |")
print("|---|" + "---|" * len(lines))
for n in ranks:
    print(f"| {n} | " + " | ".join(f"{medians[n, mode][column]:.0f}" for _, mode, column, _ in lines) + " |")

if len(sys.argv) > 1:
    most = max(max(pair) for pair in medians.values())
    parts = ['<text x="40" y="24" font-weight="bold">MPI-IO: MB/s of all ranks together against the number of ranks</text>']
    for i, (name, mode, column, color) in enumerate(lines):
        points = " ".join(f"{60 + 130 * k},{330 - 270 * medians[n, mode][column] / most:.1f}" for k, n in enumerate(ranks))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<text x="60" y="{380 + 16 * i}" fill="{color}">{name}</text>')
    for k, n in enumerate(ranks):
        parts.append(f'<text x="{60 + 130 * k}" y="350" text-anchor="middle">{n}</text>')
    parts.append(f'<text x="10" y="64">{most:.0f}</text><text x="10" y="334">0</text>')
    parts.append('<path d="M50 60 V330 H600" fill="none" stroke="#888"/>')
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write('<svg xmlns="http://www.w3.org/2000/svg" width="640" height="450" font-family="sans-serif" font-size="12">\n')
        out.write('<rect width="640" height="450" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")
