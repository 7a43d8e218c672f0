"""Numeric work in plain Python, one task after another as in a queue worker.

    python pricing.py SECONDS

Some of it is recursive.
"""

import cmath
import heapq
import itertools
import math
import random
import statistics
import sys
import time
from collections import defaultdict
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, reduce


def transform(signal):
    if len(signal) == 1:
        return signal
    even, odd = transform(signal[::2]), transform(signal[1::2])
    turned = [cmath.exp(-2j * cmath.pi * k / len(signal)) * odd[k] for k in range(len(odd))]
    return [a + b for a, b in zip(even, turned, strict=True)] + [
        a - b for a, b in zip(even, turned, strict=True)
    ]


def spectrum(luck):
    signal = [complex(math.sin(k / 5) + luck.gauss(0, 1)) for k in range(512)]
    return statistics.fmean(abs(value) for value in transform(signal))


def decomposed(matrix):
    size = len(matrix)
    lower = [[0.0] * size for _ in range(size)]
    upper = [row[:] for row in matrix]
    for k in range(size):
        pivot = max(range(k, size), key=lambda row: abs(upper[row][k]))
        upper[k], upper[pivot] = upper[pivot], upper[k]
        lower[k], lower[pivot] = lower[pivot], lower[k]
        lower[k][k] = 1.0
        for row in range(k + 1, size):
            lower[row][k] = upper[row][k] / upper[k][k]
            upper[row] = [a - lower[row][k] * b for a, b in zip(upper[row], upper[k], strict=True)]
    return lower, upper


def product(left, right):
    columns = list(zip(*right, strict=True))
    return [[dot(row, column) for column in columns] for row in left]


def dot(row, column):
    return sum(a * b for a, b in zip(row, column, strict=True))


def solved(luck):
    matrix = [[luck.gauss(0, 1) for _ in range(40)] for _ in range(40)]
    lower, upper = decomposed(matrix)
    return product(lower, upper)[0][0]


def clusters(luck):
    points = [(luck.gauss(k % 4, 0.5), luck.gauss(k % 3, 0.5)) for k in range(600)]
    centres = luck.sample(points, 5)
    for _ in range(6):
        members = defaultdict(list)
        for point in points:
            members[nearest(point, centres)].append(point)
        centres = [mean(members[k]) if members[k] else centre for k, centre in enumerate(centres)]
    return centres


def nearest(point, centres):
    return min(range(len(centres)), key=lambda k: math.dist(point, centres[k]))


def mean(points):
    return tuple(statistics.fmean(axis) for axis in zip(*points, strict=True))


class Walk:
    def __init__(self, luck, drift, noise):
        self.luck, self.drift, self.noise = luck, drift, noise

    def step(self, price):
        return price * math.exp(self.drift + self.noise * self.luck.gauss(0, 1))

    def path(self, price, steps):
        for _ in range(steps):
            price = self.step(price)
            yield price


class Option:
    def __init__(self, strike):
        self.strike = strike

    def worth(self, path):
        raise NotImplementedError


class Call(Option):
    def worth(self, path):
        return max(self.last(path) - self.strike, 0)

    def last(self, path):
        return reduce(lambda _, price: price, path)


class Asian(Option):
    def worth(self, path):
        return max(statistics.fmean(path) - self.strike, 0)


class Barrier(Call):
    def last(self, path):
        kept = list(path)
        return 0 if any(price > 140 for price in kept) else kept[-1]


def priced(luck):
    walk = Walk(luck, 0.0001, 0.02)
    options = [kind(strike) for kind in (Call, Asian, Barrier) for strike in (90, 100, 110)]
    return [statistics.fmean(option.worth(walk.path(100, 40)) for _ in range(40)) for option in options]


class Quad:
    """A quadrant of bodies that attract each other (Barnes-Hut)."""

    def __init__(self, x, y, size):
        self.x, self.y, self.size = x, y, size
        self.mass = self.cx = self.cy = 0.0
        self.body, self.parts = None, None

    def add(self, body):
        if self.parts is None and self.body is None:
            self.body = body
        else:
            if self.parts is None:
                self.split()
            self.part(body).add(body)
        total = self.mass + 1
        self.cx, self.cy = (self.cx * self.mass + body[0]) / total, (self.cy * self.mass + body[1]) / total
        self.mass = total

    def split(self):
        half = self.size / 2
        self.parts = [Quad(self.x + half * a, self.y + half * b, half) for a in (0, 1) for b in (0, 1)]
        self.part(self.body).add(self.body)
        self.body = None

    def part(self, body):
        half = self.size / 2
        return self.parts[2 * (body[0] >= self.x + half) + (body[1] >= self.y + half)]

    def force(self, body):
        if not self.mass or self.body is body:
            return 0.0, 0.0
        dx, dy = self.cx - body[0], self.cy - body[1]
        far = math.hypot(dx, dy) + 1e-9
        if self.parts is None or self.size / far < 0.5:
            return self.mass * dx / far**3, self.mass * dy / far**3
        forces = [part.force(body) for part in self.parts]
        return sum(x for x, _ in forces), sum(y for _, y in forces)


def attracted(luck):
    bodies = [(luck.random(), luck.random()) for _ in range(150)]
    root = Quad(0, 0, 1)
    for body in bodies:
        root.add(body)
    return max(math.hypot(*root.force(body)) for body in bodies)


def exactly(luck):
    terms = [Fraction(luck.randint(1, 99), luck.randint(1, 99)) for _ in range(60)]
    with localcontext() as context:
        context.prec = 60
        root = sum((Decimal(term.numerator) / Decimal(term.denominator)).sqrt() for term in terms)
    return sum(terms).limit_denominator(1000), root.quantize(Decimal("1.000"))


def shortest(luck):
    edges = {k: [((k * 7 + j * 13) % 400, luck.random()) for j in range(6)] for k in range(400)}
    far, queue = {0: 0.0}, [(0.0, 0)]
    while queue:
        at, node = heapq.heappop(queue)
        for other, length in edges[node]:
            if at + length < far.get(other, math.inf):
                far[other] = at + length
                heapq.heappush(queue, (far[other], other))
    return max(far.values())


def aligned(luck):
    left, right = ("".join(luck.choices("ACGT", k=60)) for _ in range(2))

    @cache
    def distance(i, j):
        if not i or not j:
            return i + j
        same = distance(i - 1, j - 1) + (left[i - 1] != right[j - 1])
        return min(same, distance(i - 1, j) + 1, distance(i, j - 1) + 1)

    return distance(len(left), len(right))


def queens(size, row=0, taken=()):
    if row == size:
        return 1
    free = (c for c in range(size) if all(c != o and abs(c - o) != row - r for r, o in enumerate(taken)))
    return sum(queens(size, row + 1, (*taken, column)) for column in free)


def described(luck):
    values = [luck.lognormvariate(0, 1) for _ in range(400)]
    parts = statistics.quantiles(values, n=20), statistics.stdev(values), statistics.median(values)
    line = statistics.linear_regression(values, [value * 2 + luck.random() for value in values])
    return parts, line, statistics.correlation(values, list(itertools.accumulate(values)))


def tasks(luck):
    for _ in iter(int, 1):
        yield luck.choice(
            (spectrum, solved, clusters, priced, attracted, exactly, shortest, aligned, described)
        )
        if luck.random() < 0.05:
            yield lambda _: queens(6)


def work(seconds):
    luck, end = random.Random(3), time.monotonic() + seconds
    for task in tasks(luck):
        if time.monotonic() > end:
            return
        task(luck)
        time.sleep(luck.expovariate(1500))


if __name__ == "__main__":
    work(float(sys.argv[1]))
