"""Compiles the modules in place, for the interpreter that runs it."""

from Cython.Build import cythonize
from setuptools import Extension, setup

setup(
    name="services-compiled",
    ext_modules=[
        *cythonize(
            [Extension(name, [f"{name}.pyx"]) for name in ("hot_cython", "hot_nogil")], language_level=3
        ),
        Extension("hot_c", ["hot_c.c"]),
    ],
)
